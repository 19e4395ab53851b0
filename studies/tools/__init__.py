"""What many studies are made of: arms and their training, what is kept of models, circuits of many, judgements."""
