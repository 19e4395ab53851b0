"""What many studies are made of: conditions and their training, what is kept of models, circuits of many,
judgements."""
