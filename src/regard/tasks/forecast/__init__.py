"""Forecasting: the next numbers of series, with intervals.

task       what is read, learned, answered, scored and shown
plan       the [data] of a recipe, and what the data decides
measures   sMAPE, MASE, OWA, pinball loss and coverage
baselines  forecasts without learning, to compare with
surface    tables in, tables of forecasts out
"""
