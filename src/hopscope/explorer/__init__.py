"""The explorer: one HTML file that shows trained runs, their circuits and how they came to be, with the network inside.

`exhibit` reads the records of a model; `arrays`, `manifest` and `tables` turn it into data and tables; `page` lays all
of it, with the sources in `web/`, into one file that loads nothing from anywhere.
"""
