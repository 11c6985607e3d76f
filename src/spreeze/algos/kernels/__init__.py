"""Whole updates as Triton kernels, for networks of two hidden layers. Importing this imports neither torch nor triton.

sizes.py      how a batch is cut into programs, and padded sizes
passes.py     rows through networks, and back
gradients.py  sums over rows, and the optimiser
updates.py    Sac, Td3 and Ddpg made of these
parity.py     the guard: do they compute what the plain update computes?
"""
