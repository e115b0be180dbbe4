"""Series of numbers: tables become series on a grid of steps, and series become batches of windows.

dates      texts and numbers ↔ times
frequency  the grid that times stand on: months, days, hours, whole numbers; season and calendar
series     one series, and what is done where steps are missing
table      the series of a table, with errors by file and row
windows    batches of windows over series

Three series come along, as `series:NAME`:

airline    thousands of passengers of international airlines, monthly, 1949 to 1960 (Box and Jenkins 1976)
sunspots   the yearly mean of sunspot numbers, 1700 to 2008
co2        CO₂ at Mauna Loa in parts per million, monthly means of weekly measurements, 1965 to 2001 (Keeling and Whorf)
"""
