/** A small tokenizer in the format of the Hugging Face hub: bytes, a few merges, two special tokens. */

/** The letters that stand for bytes in files of byte-level BPE. */
function lettersOfBytes(): string[] {
  const shown = (byte: number): boolean =>
    (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let others = 256;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(shown(byte) ? byte : others++),
  );
}

const MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r"];
export const TURN = "<|im_start|>";
export const END = "<|im_end|>";

const letters = lettersOfBytes();
const vocabulary = [...letters, ...MERGES.map((merge) => merge.replace(" ", ""))];
export const END_ID = vocabulary.length + 1;

const special = (content: string, id: number): object => {
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  return { id, content, ...flags, special: true };
};
const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };

/** `tokenizer.json`. */
export const TOKENIZER_JSON = {
  version: "1.0",
  truncation: null,
  padding: null,
  added_tokens: [special(TURN, vocabulary.length), special(END, END_ID)],
  normalizer: null,
  pre_tokenizer: bytes,
  post_processor: null,
  decoder: bytes,
  model: {
    type: "BPE",
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
    merges: MERGES,
  },
};

/** `tokenizer_config.json`; its template is the one that is called ChatML. */
export const TOKENIZER_CONFIG = {
  bos_token: TURN,
  eos_token: { content: END, special: true },
  clean_up_tokenization_spaces: false,
  tokenizer_class: "GPT2Tokenizer",
  chat_template:
    "{% for message in messages %}{{ bos_token + message['role'] + '\n' + message['content'] " +
    "+ eos_token + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ bos_token + " +
    "'assistant\n' }}{% endif %}",
};
