/** How long the rows of real training data are: taken from a data set if there is one, else drawn from a like distribution. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type RandomStream, randomStream } from '../trainer/tensor/random.ts';

export type Lengths = {
  /** What the lengths are, in words, for the report. */
  readonly source: string;
  /** So many lengths in tokens, in an order without meaning. */
  readonly take: (count: number) => number[];
};

/** Bytes that a token of a usual vocabulary stands for in English. */
const BYTES_A_TOKEN = 4;
const SHORTEST = 8;
const LONGEST = 512;
const CHATS = join('data', 'tau-bench', 'gpt-4o-airline.json');

/**
 * Lengths of single messages of the chat turns below the folder that `TROUPE_DATA` names, of users, assistants and tools, four bytes a
 * token. Without it log-normal, median 64 and 90th percentile about 200 tokens.
 */
export function realLengths(data: string | undefined, seed: number): Lengths {
  const random = randomStream(seed);
  const file = data && join(data, CHATS);
  if (!file || !existsSync(file)) {
    const draw = () => clip(64 * Math.exp(0.9 * random.normal()));
    const source = `log-normal lengths (median 64, sigma 0.9, ${SHORTEST} to ${LONGEST}; TROUPE_DATA names no chats)`;
    return { source, take: (count) => Array.from({ length: count }, draw) };
  }
  const turns = turnLengths(JSON.parse(readFileSync(file, 'utf8')));
  return {
    source: `lengths of ${turns.length} chat turns (${SHORTEST} to ${LONGEST} tokens) of tau-bench`,
    take: (count) => Array.from({ length: count }, () => turns[any(random, turns.length)]!),
  };
}

const clip = (tokens: number): number => Math.round(Math.min(LONGEST, Math.max(SHORTEST, tokens)));
const any = ({ uniform }: RandomStream, below: number): number => Math.floor(uniform() * below);

type Episode = { readonly traj: readonly { readonly role: string; readonly content: string | null }[] };

const turnLengths = (episodes: readonly Episode[]): number[] =>
  episodes
    .flatMap(({ traj }) => traj)
    .filter(({ role, content }) => role !== 'system' && content)
    .map(({ content }) => clip(Buffer.byteLength(content!) / BYTES_A_TOKEN));
