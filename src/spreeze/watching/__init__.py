"""Watching a policy: environments that can be drawn, episodes at the speed of life, and where their pictures go.

drawing     an environment that gives pictures, with or without a screen
playing     episodes one after the other, each state shown when its moment has come
outlets     where the pictures go: live (for the page), window, video
"""
