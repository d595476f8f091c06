/**
 * Text to token ids and back, with the model's own tokenizer.json, whose parts are read by the files beside this one. Also writes the files
 * of a tiny word-level tokenizer, for models small enough to be trained in a test.
 */

import { got, TroupeError } from '../../../errors.ts';
import type { JsonObject } from '../../../ingest/events/json.ts';
import { type AddedToken, addedTokenCutter } from './added-tokens.ts';
import { cleaned, decoder } from './decoders.ts';
import { normalizer } from './normalizers.ts';
import { preTokenizer } from './pre-tokenizers.ts';
import { around, patternOf, tokenModel, vocabularyOf } from './token-models.ts';

/** The tokenizer files of a model directory: the contents of tokenizer.json and tokenizer_config.json. */
export type TokenizerFiles = { readonly tokenizer: JsonObject; readonly config: JsonObject };
export type Tokenizer = {
  /** Token ids of a text as it stands; special tokens written in it count as such, none is added. */
  encode(text: string): number[];
  /** As `encode`, with the tokens a model wants around a raw prompt (such as a `<s>` in front). */
  encodePrompt(text: string): number[];
  /** Text of token ids, special tokens included. Throws `input_refused` for an id outside the vocabulary. */
  decode(ids: readonly number[]): string;
  /** Number of ids: the highest one + 1, added tokens included. */
  readonly vocabSize: number;
  /** The token of an id, or null. */
  token(id: number): string | null;
  /** Id of one token, or null. */
  id(token: string): number | null;
  /** Ids of tokens that are no text, such as those around turns. */
  readonly special: ReadonlySet<number>;
  readonly bos: number | null;
  readonly eos: number | null;
  readonly pad: number | null;
  /** The named tokens as text, as chat templates read them (`eos_token`, …). */
  readonly named: Readonly<Record<string, string>>;
};

const NAMED = ['bos_token', 'eos_token', 'pad_token', 'unk_token', 'sep_token', 'cls_token', 'mask_token'] as const;

/** A tokenizer from its two files. Throws `model_unsupported` for what cannot be read, and for what would be read otherwise than it is meant. */
export function openTokenizer(files: TokenizerFiles): Tokenizer {
  try {
    return tokenizerOf(files);
  } catch (cause) {
    throw new TroupeError('model_unsupported', `This tokenizer.json cannot be read: ${(cause as Error).message}.`, {
      expected: 'a tokenizer.json of the BPE, Unigram, WordPiece or WordLevel kind',
      cause,
    });
  }
}

function tokenizerOf({ tokenizer: json, config }: TokenizerFiles): Tokenizer {
  const named = namedTokens(config);
  const added = (json.added_tokens ?? []) as readonly AddedToken[];
  const normalize = normalizer(json.normalizer, patternOf);
  const sections = addedTokenCutter(added, normalize);
  const pieces = preTokenizer(json.pre_tokenizer, patternOf);
  const decode = decoder(json.decoder, patternOf);
  const pieceIds = tokenModel(json.model);
  const surrounded = around(json.post_processor);

  const tokens = new Map(vocabularyOf(json.model).map(([token, id]) => [id, token]));
  for (const { id, content } of added) tokens.set(id, content);
  const ids = new Map([...tokens].map(([id, token]) => [token, id]));
  const vocabSize = 1 + [...tokens.keys()].reduce((a, b) => Math.max(a, b), -1);
  const cleanUp = config.clean_up_tokenization_spaces === true;

  const encode = (text: string): number[] =>
    sections(text).flatMap((section) =>
      'id' in section
        ? [section.id]
        : pieces(section.text, section.first).flatMap((piece) => {
            const found = pieceIds(piece);
            if (typeof found !== 'string') return found;
            throw new TroupeError(
              'input_refused',
              `${got(found)} is not a word of this model, which has no token for unknown words.`,
              { expected: `one of its ${vocabSize} words`, got: got(found) },
            );
          }),
    );
  const idOf = (token: string | undefined): number | null => (token === undefined ? null : (ids.get(token) ?? null));
  return {
    encode,
    encodePrompt: (text) => [...surrounded(encode(text))],
    decode(asked) {
      if (asked.length === 0) return '';
      const wrong = asked.find((each) => !tokens.has(each));
      if (wrong !== undefined) {
        throw new TroupeError('input_refused', `Token id ${wrong} is not in the vocabulary of ${vocabSize} tokens.`);
      }
      const text = decode(asked.map((each) => tokens.get(each) as string)).join('');
      return cleanUp ? cleaned(text) : text;
    },
    vocabSize,
    token: (each) => tokens.get(each) ?? null,
    id: idOf,
    special: specialIds(json.added_tokens),
    bos: idOf(named.bos_token),
    eos: idOf(named.eos_token),
    pad: idOf(named.pad_token),
    named,
  };
}

/** Stands for the tokenizer of a model that has none: it has no tokens, and refuses text. Rows of token ids need no more. */
export function noTokenizer(dir: string): Tokenizer {
  const refuse = (): never => {
    throw new TroupeError('model_unsupported', `${dir} has no tokenizer.json, so it takes token ids only.`, {
      hint: 'Save the tokenizer with transformers: AutoTokenizer.from_pretrained(NAME).save_pretrained(DIR).',
    });
  };
  return {
    encode: refuse,
    encodePrompt: refuse,
    decode: refuse,
    vocabSize: 0,
    token: () => null,
    id: () => null,
    special: new Set(),
    bos: null,
    eos: null,
    pad: null,
    named: {},
  };
}

const specialIds = (added: unknown): ReadonlySet<number> =>
  new Set(Array.isArray(added) ? added.flatMap(({ id, special }) => (special === true ? [id as number] : [])) : []);

function namedTokens(config: JsonObject): Readonly<Record<string, string>> {
  const named: Record<string, string> = {};
  for (const name of NAMED) {
    const token = config[name];
    const text = typeof token === 'object' && token !== null ? (token as JsonObject).content : token;
    if (typeof text === 'string') named[name] = text;
  }
  return named;
}

/** Which special tokens of a word-level tokenizer begin, end and fill a text; `unk`, if given, stands for unknown words. */
export type WordRoles = {
  readonly bos?: string;
  readonly eos?: string;
  readonly pad?: string;
  readonly unk?: string;
};

/** The special tokens of a tokenizer.json, whose ids begin at 0. */
export const addedTokens = (special: readonly string[]): readonly object[] =>
  special.map((content, id) => ({
    id,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  }));

/**
 * The files of a word-level tokenizer: special tokens have the ids from 0, then the words in the order given. Text is cut
 * at white space, special tokens also without it; `decode` puts one space between tokens, so encode(decode(ids)) = ids.
 * Without `unk` an unknown word is refused. transformers' PreTrainedTokenizerFast reads the same files.
 * Throws `usage` for a word that is empty, doubled, holds white space or a special token.
 */
export function wordTokenizer(
  words: readonly string[],
  special: readonly string[],
  { bos, eos, pad, unk }: WordRoles = {},
): TokenizerFiles {
  const all = [...special, ...words];
  const ids = new Map(all.map((token, id) => [token, id]));
  for (const [index, token] of all.entries()) {
    // U+0085 and U+FEFF are white space to only one of the two readers of these files.
    const wrong =
      token === '' || /[\s\u0085\ufeff\p{Cs}]/u.test(token)
        ? 'is empty or holds white space'
        : ids.get(token) !== index
          ? 'occurs twice'
          : all.some((other, at) => at < special.length && at !== index && token.includes(other))
            ? 'holds a special token'
            : null;
    if (wrong)
      throw new TroupeError('usage', `A word-level tokenizer cannot have the word ${got(token)}: it ${wrong}.`);
  }
  const roles = { bos_token: bos, eos_token: eos, pad_token: pad, unk_token: unk };
  const named = Object.fromEntries(Object.entries(roles).filter(([, token]) => token !== undefined));
  for (const [role, token] of Object.entries(named)) {
    if (!special.includes(token!))
      throw new TroupeError('usage', `${role} ${got(token)} is not one of the special tokens.`);
  }
  return {
    tokenizer: {
      version: '1.0',
      truncation: null,
      padding: null,
      added_tokens: addedTokens(special),
      normalizer: null,
      pre_tokenizer: { type: 'WhitespaceSplit' },
      post_processor: null,
      decoder: null,
      // Readers want a name here; one that is not in the vocabulary makes them refuse unknown words.
      model: { type: 'WordLevel', vocab: Object.fromEntries(ids), unk_token: unk ?? '<unk>' },
    },
    config: {
      tokenizer_class: 'PreTrainedTokenizerFast',
      clean_up_tokenization_spaces: false,
      model_max_length: 1_000_000,
      ...named,
    },
  };
}
