"""The studio: a local web page for the whole way from a file to a signed report, for people without a command line.

The one rule: it adds no rule of privacy. Every page calls what the commands call and shows the same messages. It
answers this machine alone (`security`), sees the chosen folders alone (`folders`), and shows no cell of a table.
"""
