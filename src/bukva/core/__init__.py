"""What everything else uses: files, errors, units, text, redaction, progress."""
