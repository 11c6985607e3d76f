"""What a run measures, keeps and shows. Importing this package imports neither torch nor rich nor tensorboard."""
