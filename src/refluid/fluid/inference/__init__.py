"""What `fluid.core` has for inference: a saved model, how it is to be run, and its predictor."""
