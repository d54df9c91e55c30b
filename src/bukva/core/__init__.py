"""What everything else uses: files, errors, progress, processes, the machine."""
