"""Plan training runs (command `bukva plan`).

params.yaml sets the size of the model and the number of training steps, but not the time. `bukva plan` proposes a model
size and a number of steps that fit into a time budget on this machine. It can also predict the memory and the time of a
training run on another GPU. bukva.planning.memory checks that a training run fits into memory.
"""
