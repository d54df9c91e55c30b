"""Command `bukva plan`: propose a model size and a number of training steps for a time budget on this machine.

params.yaml has no time budget; it sets the number of steps.
"""
