"""Propose a model size and a number of training steps for a time budget on this machine (command `bukva plan`).

params.yaml sets the number of steps and has no time budget.
"""
