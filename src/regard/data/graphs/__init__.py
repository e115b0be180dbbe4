"""Graphs: nodes with features and labels, and edges between them.

graph     a graph in memory, and parts of it
files     .npz files, and edge lists with a table of nodes
batches   batches of a whole graph, or of the neighbourhoods of some nodes
"""
