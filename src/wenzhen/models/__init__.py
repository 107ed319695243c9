"""The model families, and what a folder with a trained model holds."""

# Without any of these a model folder cannot be loaded.
MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
