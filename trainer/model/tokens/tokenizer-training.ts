/**
 * A tokenizer made from text: byte-level byte-pair encoding, as the models of the Qwen and GPT families read text. Every
 * string can be written in its 256 bytes, so nothing is unknown to it.
 */
import { got, TroupeError } from '../../../errors.ts';
import { learnMerges } from './byte-pair-merges.ts';
import { BYTE_CHARACTERS, countPieces, PIECE_PATTERN } from './byte-pieces.ts';
import { addedTokens, type TokenizerFiles } from './tokenizer.ts';

export type BpeOptions = {
  /** Tokens at most: special ones, 256 bytes and merges. Fewer where the text has no more pairs to merge. */
  readonly vocabSize: number;
  /** Tokens that text is cut at, with the ids from 0. */
  readonly special?: readonly string[];
  /** A pair must occur this often to become a token; 2 if left out. */
  readonly minFrequency?: number;
  /** Which special tokens begin, end and fill a text. */
  readonly roles?: { readonly bos?: string; readonly eos?: string; readonly pad?: string };
  readonly onMerge?: (done: number, total: number) => void;
};

const BYTES = 256;

/**
 * The files of a tokenizer trained on texts. Ids: special tokens, then the 256 bytes in the order of the characters that
 * stand for them, then the merges. The same texts give the same files in any order, and the merges are those of the
 * `BpeTrainer` of huggingface/tokenizers with the same cut. Throws `usage` for a vocabulary that cannot hold the bytes or
 * for special tokens that are empty, doubled or part of another.
 */
export function trainBpe(texts: Iterable<string>, options: BpeOptions): TokenizerFiles {
  const { vocabSize, special = [], minFrequency = 2, roles = {}, onMerge } = options;
  checkSpecial(special, roles);
  const fixed = special.length + BYTES;
  if (!Number.isSafeInteger(vocabSize) || vocabSize < fixed) {
    throw new TroupeError(
      'usage',
      `A byte-level vocabulary needs ${fixed} tokens at least (${BYTES} bytes and ${special.length} special ones), not ${got(vocabSize)}.`,
      { field: 'vocab', expected: `a whole number from ${fixed}`, got: got(vocabSize) },
    );
  }
  const alphabet = BYTE_CHARACTERS.toSorted();
  const { merges, names } = learnMerges(countPieces(texts, special), {
    symbolOf: BYTE_CHARACTERS.map((character) => alphabet.indexOf(character)),
    names: alphabet,
    limit: vocabSize - fixed,
    minFrequency,
    ...(onMerge ? { onMerge } : {}),
  });
  const vocabulary = Object.fromEntries([...special, ...names].map((token, id) => [token, id]));
  return {
    tokenizer: {
      version: '1.0',
      truncation: null,
      padding: null,
      added_tokens: addedTokens(special),
      normalizer: null,
      pre_tokenizer: {
        type: 'Sequence',
        pretokenizers: [
          { type: 'Split', pattern: { Regex: PIECE_PATTERN }, behavior: 'Isolated', invert: false },
          { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
        ],
      },
      post_processor: null,
      decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        ignore_merges: false,
        vocab: vocabulary,
        merges: merges.map(([left, right]) => `${names[left]} ${names[right]}`),
      },
    },
    config: {
      tokenizer_class: 'PreTrainedTokenizerFast',
      clean_up_tokenization_spaces: false,
      model_max_length: 1_000_000,
      ...Object.fromEntries(Object.entries(roles).map(([role, token]) => [`${role}_token`, token])),
    },
  };
}

function checkSpecial(special: readonly string[], roles: Readonly<Record<string, string>>): void {
  for (const [index, token] of special.entries()) {
    const wrong =
      token === '' || !token.isWellFormed()
        ? 'is empty or no text'
        : special.filter((other) => other === token).length > 1
          ? 'occurs twice'
          : token.length === 1 && BYTE_CHARACTERS.includes(token)
            ? 'already stands for a byte'
            : special.some((other, at) => at !== index && token.includes(other))
              ? 'holds another one'
              : null;
    if (wrong) throw new TroupeError('usage', `A tokenizer cannot have the special token ${got(token)}: it ${wrong}.`);
  }
  for (const [role, token] of Object.entries(roles)) {
    if (!special.includes(token))
      throw new TroupeError('usage', `${role}_token ${got(token)} is not one of the special tokens.`);
  }
}
