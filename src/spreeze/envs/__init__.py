"""Environments: where one comes from, and the engines that step many. Importing this package imports no simulator."""
