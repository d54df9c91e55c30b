"""`bukva plan`: converts a time budget into training steps for this machine.

Stages know steps only. Here the sizes of a ladder are measured by a few updates each, on the splits of the project, and
a budget in seconds becomes a size, a batch and a number of steps.
"""
