"""The task itself: chains, the role of every position, and the batches and questions made from them."""
