"""What is wrong with the webhook configurations of a store, beyond what an apiserver refuses."""
