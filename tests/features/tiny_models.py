"""Tiny models with random or chosen weights, in the folders that other packages read."""

import json

import numpy as np
import pytest

WORDS = ["pan", "chair", "lamp", "red", "blue", "green"]
# Words that no training text has, beside those whose vectors they share.
SYNONYMS = {"skillet": "pan", "stool": "chair", "lantern": "lamp"}


def tokenizer(words):
    tokenizers = pytest.importorskip("tokenizers", reason="the extra encoders is not installed")
    ids = {word: k for k, word in enumerate(["[UNK]", *words])}
    found = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="[UNK]"))
    found.normalizer = tokenizers.normalizers.Lowercase()
    found.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return found


def word_vectors():
    """One direction per word; a synonym has that of its word, unknown words have none."""
    table = np.vstack([np.zeros(len(WORDS)), np.eye(len(WORDS))])
    same = [table[1 + WORDS.index(word)] for word in SYNONYMS.values()]
    return [*WORDS, *SYNONYMS], np.vstack([table, *same]).astype(np.float32)


def static_folder(folder, scale=1.0):
    """A model2vec folder."""
    model2vec = pytest.importorskip("model2vec", reason="the extra encoders is not installed")
    words, table = word_vectors()
    found = model2vec.StaticModel(vectors=table * scale, tokenizer=tokenizer(words))
    found.save_pretrained(folder)
    return str(folder)


def sentence_folder(folder):
    """A sentence-transformers folder for texts."""
    package = pytest.importorskip(
        "sentence_transformers", reason="the extra networks is not installed"
    )
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    words, table = word_vectors()
    module = StaticEmbedding(tokenizer(words), embedding_weights=table)
    package.SentenceTransformer(modules=[module], device="cpu").save(str(folder))
    return str(folder)


def clip_folder(folder):
    """A sentence-transformers folder with a CLIP network of random weights for pictures."""
    pytest.importorskip("sentence_transformers", reason="the extra networks is not installed")
    torch = pytest.importorskip("torch")
    import transformers

    size = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    size |= {"num_attention_heads": 1, "projection_dim": 6}
    marks = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config = transformers.CLIPConfig(
        text_config={**size, **marks, "vocab_size": 4, "max_position_embeddings": 8},
        vision_config={**size, "image_size": 16, "patch_size": 8},
        projection_dim=6,
    )
    torch.manual_seed(0)
    transformers.CLIPModel(config).save_pretrained(folder)
    vocabulary = {word: k for k, word in enumerate(["<|startoftext|>", "<|endoftext|>", "a</w>"])}
    words = transformers.CLIPTokenizer(vocab=vocabulary, merges=[])
    side = {"height": 16, "width": 16}
    pictures = transformers.CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size=side)
    transformers.CLIPProcessor(image_processor=pictures, tokenizer=words).save_pretrained(folder)
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.CLIPModel"}
    (folder / "modules.json").write_text(json.dumps([module]))
    return str(folder)


def write_pictures(folder, kinds, seed=0):
    """One PNG per kind: red, green or blue, with noise."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    rng = np.random.default_rng(seed)
    names = []
    for i, kind in enumerate(kinds):
        pixels = rng.integers(0, 60, (20, 24, 3))
        pixels[:, :, kind] += 180
        names.append(f"picture{seed}-{i}.png")
        image.fromarray(pixels.astype(np.uint8)).save(folder / names[-1])
    return names
