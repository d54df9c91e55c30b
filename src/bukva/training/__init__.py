"""Training. Read run.py first: the loop; the other modules are its parts."""
