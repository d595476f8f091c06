/**
 * Which tokens may come next so that a sample is a text of a grammar. Tokens are looked at in the order of their bytes, so that a
 * beginning which is not allowed is refused once for all tokens that have it.
 */
import { TroupeError } from '../../errors.ts';
import { bytesOfText, tokenTexts } from '../model/tokens/token-text.ts';
import type { Tokenizer } from '../model/tokens/tokenizer.ts';
import { type Automaton, automatonOf, type State } from './json-automaton.ts';
import type { Grammar } from './json-schema.ts';

/** The way of one sample through a grammar. */
export type Walk = {
  /** Ids that may come next. Empty once the text is whole and nothing may follow. @throws TroupeError `model_unsupported` if no token fits. */
  readonly allowed: () => Int32Array;
  readonly isWhole: () => boolean;
  readonly take: (token: number) => void;
};

/** Begins a sample. */
export type Constraint = () => Walk;

type Vocabulary = {
  readonly ids: Int32Array;
  readonly bytes: readonly Uint8Array[];
  /** How many bytes each shares with the one before. */
  readonly shared: Int32Array;
  readonly of: ReadonlyMap<number, Uint8Array>;
};

/** Constraints of a tokenizer that are kept: teams ask for the same few again and again. */
const KEPT = 32;
/** Masks of one constraint that are kept. */
const KEPT_MASKS = 256;
const known = new WeakMap<
  Tokenizer,
  { vocabularies: Map<boolean, Vocabulary>; constraints: Map<string, Constraint> }
>();

/** The constraint of a grammar, kept under `key`; special tokens and those that end a reply are never allowed. */
export function constraintOf(
  { tokenizer, eosIds }: { readonly tokenizer: Tokenizer; readonly eosIds: readonly number[] },
  key: string,
  grammar: () => Grammar,
): Constraint {
  const kept = known.get(tokenizer) ?? { vocabularies: new Map(), constraints: new Map() };
  known.set(tokenizer, kept);
  const before = kept.constraints.get(key);
  if (before !== undefined) return before;
  const vocabulary = (isFirst: boolean): Vocabulary => {
    const there = kept.vocabularies.get(isFirst) ?? vocabularyOf(tokenizer, eosIds, isFirst);
    kept.vocabularies.set(isFirst, there);
    return there;
  };
  const made = walker(automatonOf(grammar()), vocabulary);
  if (kept.constraints.size >= KEPT) kept.constraints.delete(kept.constraints.keys().next().value as string);
  kept.constraints.set(key, made);
  return made;
}

function walker(automaton: Automaton, vocabulary: (isFirst: boolean) => Vocabulary): Constraint {
  const masks = new Map<string, Int32Array>();
  const maskOf = (state: State, isFirst: boolean): Int32Array => {
    const key = `${isFirst} ${state.key}`;
    const before = masks.get(key);
    if (before !== undefined) return before;
    // A schema with long lists has as many states as elements; the mask of one may be as large as the vocabulary.
    if (masks.size >= KEPT_MASKS) masks.clear();
    const mask = allowedFrom(automaton, state, vocabulary(isFirst));
    masks.set(key, mask);
    return mask;
  };
  return () => {
    let state = automaton.start;
    let isFirst = true;
    return {
      allowed: () => {
        const mask = maskOf(state, isFirst);
        if (mask.length > 0 || automaton.isWhole(state)) return mask;
        throw new TroupeError('model_unsupported', 'No token of this model continues the text within the schema.', {
          hint: 'Its tokenizer cannot write this JSON.',
        });
      },
      isWhole: () => automaton.isWhole(state),
      take: (token) => {
        for (const byte of vocabulary(isFirst).of.get(token) ?? []) state = automaton.step(state, byte) ?? state;
        isFirst = false;
      },
    };
  };
}

function allowedFrom(automaton: Automaton, start: State, { ids, bytes, shared }: Vocabulary): Int32Array {
  const found: number[] = [];
  /** The state after each byte of the last token that was looked at, as far as its bytes are allowed. */
  const states: State[] = [start];
  let dead = Number.POSITIVE_INFINITY;
  for (const [i, token] of bytes.entries()) {
    const common = shared[i] as number;
    if (common >= dead) continue;
    dead = Number.POSITIVE_INFINITY;
    states.length = common + 1;
    for (let at = common; at < token.length; at++) {
      const after = automaton.step(states[at] as State, token[at] as number);
      if (after === null) {
        dead = at + 1;
        break;
      }
      states.push(after);
    }
    if (dead === Number.POSITIVE_INFINITY) found.push(ids[i] as number);
  }
  return Int32Array.from(found);
}

function vocabularyOf(tokenizer: Tokenizer, eosIds: readonly number[], isFirst: boolean): Vocabulary {
  const text = tokenTexts(tokenizer);
  const tokens: { id: number; bytes: Buffer }[] = [];
  for (let id = 0; id < tokenizer.vocabSize; id++) {
    if (tokenizer.token(id) === null || tokenizer.special.has(id) || eosIds.includes(id)) continue;
    const bytes = bytesOfText(text(id, isFirst));
    if (bytes !== null && bytes.length > 0) tokens.push({ id, bytes: Buffer.from(bytes) });
  }
  tokens.sort((a, b) => Buffer.compare(a.bytes, b.bytes));
  const shared = Int32Array.from(tokens, ({ bytes }, i) => {
    const before = tokens[i - 1]?.bytes ?? Buffer.alloc(0);
    let at = 0;
    while (at < bytes.length && bytes[at] === before[at]) at++;
    return at;
  });
  return {
    ids: Int32Array.from(tokens, ({ id }) => id),
    bytes: tokens.map(({ bytes }) => bytes),
    shared,
    of: new Map(tokens.map(({ id, bytes }) => [id, bytes])),
  };
}
