"""What-ifs: streams of boots, deletes and failures, replayed through the decisions that the service makes."""
