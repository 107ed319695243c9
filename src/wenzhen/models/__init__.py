"""The model families, and what a folder with a trained model holds besides its recipe and its card."""

# Without any of these a model folder cannot be loaded.
MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
# Nor a classifier of departments without these: it writes nothing.
CLASSIFIER_FILES = tuple(name for name in MODEL_FILES if name != "generation_config.json")
# The weights of an export to CTranslate2, which stand there in the place of `model.safetensors`.
EXPORTED_WEIGHTS = "model.bin"
# What the dataset's report said when the model was trained: its card is written from it.
DATASET_REPORT = "dataset_report.json"
LOG_FILE = "training_log.jsonl"
FIGURE = "figures/loss.png"
# How long the training took.
TRAINING_TIME = "training_time.json"
# What `wenzhen evaluate` found.
METRICS_FILE = "metrics.json"
PREDICTIONS_FILE = "predictions.jsonl"
# Its answers while it is at it.
PARTIAL_PREDICTIONS = "predictions.partial.jsonl"
# The folder inside it with the states that a run can go on from.
CHECKPOINTS = "checkpoints"
# The folder inside it that TensorBoard reads.
TENSORBOARD = "tensorboard"
# Folders inside it that answers are given with: an index of consultations, and a classifier that guesses departments.
EVIDENCE = "evidence"
DEPARTMENTS = "departments"
# Safety rules of its owner's, in the place of the project's.
SAFETY_RULES = "safety.yaml"
