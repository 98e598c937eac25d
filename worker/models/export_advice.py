"""The commands that messages name: what makes a model that kvjobs can open."""

ADD = "kvjobs models add"
EXPORT = "optimum-cli export onnx --model MODEL --task text2text-generation-with-past FOLDER"
EXPORT_CAUSAL = "optimum-cli export onnx --model MODEL --task text-generation-with-past FOLDER"

# Where a repository has the tokenizer in SentencePiece's own form alone.
CONVERT = (
    """python -c "from transformers import AutoTokenizer as T; T.from_pretrained('MODEL').save_pretrained('FOLDER')\""""
)
