/** What a benchmark is: a comparison of Troupe with a peer or a ceiling, by name, and the settings they all know. */
import type { Result } from './harness.ts';

export type Settings = {
  /** Threads of each side's arithmetic. */
  readonly threads: number;
  readonly rounds: number;
  /** Names of sizes separated by commas, or null for the benchmark's own choice. */
  readonly sizes: string | null;
  /** Names of parts of the benchmark separated by commas, or null for all. */
  readonly only: string | null;
  /** A file of assumptions, for a benchmark that computes from some; null for its own. */
  readonly assumptions: string | null;
  /** Training steps of a round, or null for as many as take about a second. */
  readonly steps: number | null;
  /** `--compile`, `--fused` …: further peers, as the benchmark names them. */
  readonly also: ReadonlySet<string>;
  /** An empty folder, removed afterwards. */
  readonly scratch: string;
  readonly say: (line: string) => void;
};

export type Bench = {
  readonly name: string;
  /** One line: what is compared with what. */
  readonly about: string;
  readonly run: (settings: Settings) => Promise<Result[]>;
};
