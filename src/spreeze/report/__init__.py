"""A table and plots from the folders of runs: runs.py reads, groups.py puts seeds together, spread.py and solving.py
compute, plots.py draws, page.py writes Markdown, and document.py calls them in that order.

Importing this package imports neither matplotlib nor NumPy."""
