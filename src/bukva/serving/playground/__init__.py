"""The playground: a page on this machine on which to write with trained models, two side by side."""
