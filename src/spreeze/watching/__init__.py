"""Watching a policy: environments that can be drawn, episodes at the speed of life, and where their pictures go.

drawing     an environment that gives pictures, with or without a screen
following   the policy that acts: the newest weights of a run, or its best
pace        when a state is shown, and which states are drawn
playing     episodes one after the other, each state shown when its moment has come
outlets     where the pictures go while it plays: live (for the page), window
clips       an episode as a video file, every now and then
film        pictures one after the other -> mp4 or gif
live        the live picture's two files, as readers see them
window      the window, a program of its own
watch       `spreeze watch`: all of it beside a run, in a process of its own
"""
