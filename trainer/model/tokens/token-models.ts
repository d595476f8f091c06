/**
 * The model of a tokenizer.json, from a piece of text to token ids, and the tokens it wants around a text. As in huggingface/tokenizers
 * (tokenizers/src/models/, tokenizers/src/processors/). The only file that knows @huggingface/tokenizers. Its search for the best tokens
 * and its rewriting of regular expressions are used, and nothing else: in added tokens, white space, unknown characters and several parts
 * it differs from the tokenizers that models were trained with, without a word.
 */
import { Tokenizer as Library } from '@huggingface/tokenizers';
import { got } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import { type PatternOf, partReader, type TokenizerPart } from './tokenizer-parts.ts';

const NOTHING = { added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null };

/** From pieces to tokens, and of characters without one to the unknown token or to themselves. */
const libraryModel = (model: object): ((pieces: readonly string[]) => readonly string[]) =>
  new Library({ ...NOTHING, model }, {}).model as never;

export const patternOf: PatternOf = (json) => {
  const { Regex: regex, String: text } = isRecord(json) ? json : {};
  if (typeof regex !== 'string' && typeof text !== 'string') throw new Error(`${got(json)} is no pattern`);
  const split = { type: 'Split', pattern: json, behavior: 'Isolated', invert: true };
  const model = { type: 'BPE', vocab: {}, merges: [] };
  return (new Library({ ...NOTHING, model, pre_tokenizer: split }, {}).pre_tokenizer as unknown as { pattern: RegExp })
    .pattern;
};

/** Ids of a piece; of one that has none, because the model has no token for unknown words, the piece itself. */
type TokenModel = (piece: string) => readonly number[] | string;

/** The tokens of a model with their ids. */
export function vocabularyOf(json: unknown): (readonly [token: string, id: number])[] {
  const vocab = isRecord(json) ? json.vocab : undefined;
  if (Array.isArray(vocab)) return vocab.map(([token], id) => [token, id]);
  if (!isRecord(vocab)) throw new Error('its model has no vocabulary');
  return Object.entries(vocab) as [string, number][];
}

/** A model from its JSON. Throws for one that is not known, and for fields that would have to be followed. */
export function tokenModel(json: unknown): TokenModel {
  // Older files leave the type out.
  const typed = isRecord(json) ? { ...json, type: json.type ?? typeWithout(json) } : json;
  const part = partReader('model', typed);
  const vocabulary = new Map(vocabularyOf(json));
  if ((part.json.dropout ?? 0) !== 0)
    throw new Error(`dropout of the model must be null, it is ${got(part.json.dropout)}`);
  switch (part.type) {
    case 'BPE':
      return bpe(part, vocabulary);
    case 'Unigram':
      return unigram(part, vocabulary);
    case 'WordPiece':
      return wordPiece(part, vocabulary);
    case 'WordLevel':
      return (piece) => {
        const id = vocabulary.get(piece) ?? vocabulary.get(part.text('unk_token', '<unk>'));
        return id === undefined ? piece : [id];
      };
    default:
      throw new Error(`the model ${got(part.type)} is not known`);
  }
}

const typeWithout = (json: Readonly<Record<string, unknown>>): string =>
  json.merges !== undefined ? 'BPE' : Array.isArray(json.vocab) ? 'Unigram' : 'WordPiece';

type Vocabulary = ReadonlyMap<string, number>;

function bpe(part: TokenizerPart, vocabulary: Vocabulary): TokenModel {
  const prefix = part.text('continuing_subword_prefix', '');
  if (prefix !== '') throw new Error(`continuing_subword_prefix of the model must be empty, it is ${got(prefix)}`);
  const model = libraryModel({ ...part.json, merges: part.list('merges') });
  return (piece) => model([piece]).map((token) => vocabulary.get(token) as number);
}

function wordPiece(part: TokenizerPart, vocabulary: Vocabulary): TokenModel {
  const defaults = { continuing_subword_prefix: '##', unk_token: '[UNK]' };
  const model = libraryModel({ ...defaults, ...part.json });
  return (piece) => {
    const ids = model([piece]).map((token) => vocabulary.get(token));
    return ids.includes(undefined) ? piece : (ids as number[]);
  };
}

/** A run of characters that are no token is one unknown token, or with `byte_fallback` the tokens of its bytes. */
function unigram(part: TokenizerPart, vocabulary: Vocabulary): TokenModel {
  const unknown = part.json.unk_id == null ? null : part.count('unk_id');
  const bytes = part.flag('byte_fallback', false);
  const model = libraryModel({ ...part.json, unk_id: unknown ?? undefined });
  return (piece) => {
    const ids: number[] = [];
    for (const token of model([piece])) {
      const id = vocabulary.get(token);
      if (id !== undefined) {
        ids.push(id);
        continue;
      }
      const fallen = bytes ? [...Buffer.from(token)].map((byte) => vocabulary.get(byteToken(byte))) : [];
      if (fallen.length > 0 && !fallen.includes(undefined)) ids.push(...(fallen as number[]));
      else if (unknown === null) return token;
      else ids.push(unknown);
    }
    return ids;
  };
}

const byteToken = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;

/** What a post-processor puts around one text. Throws for one that is not known. */
export function around(json: unknown): (ids: readonly number[]) => readonly number[] {
  if (json == null) return (ids) => ids;
  const part = partReader('post-processor', json);
  switch (part.type) {
    case 'Sequence': {
      const all = part.list('processors').map(around);
      return (ids) => all.reduce((now, one) => one(now), ids);
    }
    case 'ByteLevel':
      return (ids) => ids;
    case 'BertProcessing':
    case 'RobertaProcessing': {
      const [first, last] = ([part.json.cls, part.json.sep] as [[string, number], [string, number]]).map(
        ([, id]) => id,
      );
      return (ids) => [first as number, ...ids, last as number];
    }
    case 'TemplateProcessing': {
      const special = part.json.special_tokens as Record<string, { readonly ids: readonly number[] }>;
      const template = part.list('single') as readonly { readonly SpecialToken?: { readonly id: string } }[];
      return (ids) =>
        template.flatMap(({ SpecialToken: token }) => (token === undefined ? ids : (special[token.id]?.ids ?? [])));
    }
    default:
      throw new Error(`the post-processor ${got(part.type)} is not known`);
  }
}
