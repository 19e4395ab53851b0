"""The explorer: one HTML file that shows trained runs, their circuits and their emergence, and includes the network.

`exhibit` reads the records of a model; `arrays`, `manifest` and `tables` turn them into data and tables; `page` puts
the data and the sources in `web/` into one file, which loads nothing from elsewhere.
"""
