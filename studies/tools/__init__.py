"""Code that the studies share: conditions and their training, circuits of many models, statistics, records and
judgements."""
