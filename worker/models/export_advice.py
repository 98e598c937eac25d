"""The commands that error messages recommend for making a model that kvjobs can open."""

ADD = "kvjobs models add"
EXPORT = "optimum-cli export onnx --model MODEL --task text2text-generation-with-past FOLDER"
EXPORT_CAUSAL = "optimum-cli export onnx --model MODEL --task text-generation-with-past FOLDER"

# For a repository that has only a SentencePiece model (tokenizer.model) and no tokenizer.json.
CONVERT = (
    """python -c "from transformers import AutoTokenizer as T; T.from_pretrained('MODEL').save_pretrained('FOLDER')\""""
)
