/**
 * Which file knows which commands. Only the file of the command that is asked for is loaded: all of them cost more than a second of
 * processor time at every start.
 */
import type { Command } from 'commander';

export type CommandFile = {
  /** The commands it adds, as they are typed. */
  readonly names: readonly string[];
  readonly load: () => Promise<(program: Command) => void>;
};

/** In the order of the help. */
export const COMMAND_FILES: readonly CommandFile[] = [
  {
    names: ['import', 'export', 'deadletters'],
    load: async () => (await import('./commands/record.ts')).recordCommands,
  },
  {
    names: ['sql', 'episodes', 'show', 'lineage', 'rebuild', 'checksum', 'reconcile'],
    load: async () => (await import('./commands/ask.ts')).askCommands,
  },
  { names: ['compare'], load: async () => (await import('./commands/compare.ts')).compareCommands },
  { names: ['erase'], load: async () => (await import('./commands/keep.ts')).keepCommands },
  { names: ['prune'], load: async () => (await import('./commands/prune.ts')).pruneCommands },
  { names: ['judge'], load: async () => (await import('./commands/judge.ts')).judgeCommands },
  { names: ['teams', 'pool'], load: async () => (await import('./commands/pool.ts')).poolCommands },
  { names: ['blame'], load: async () => (await import('./commands/blame.ts')).blameCommands },
  { names: ['method'], load: async () => (await import('./commands/method.ts')).methodCommands },
  {
    names: ['recipe', 'dataset', 'train', 'sample', 'logprobs', 'values', 'passes'],
    load: async () => (await import('./commands/learn.ts')).learnCommands,
  },
  { names: ['model'], load: async () => (await import('./commands/model.ts')).modelCommands },
  {
    names: ['up', 'run', 'demo', 'jobs', 'release', 'checkpoints', 'doctor', 'reset'],
    load: async () => (await import('./commands/run.ts')).runCommands,
  },
  { names: ['key'], load: async () => (await import('./commands/key.ts')).keyCommands },
  { names: ['bench'], load: async () => (await import('./commands/bench.ts')).benchCommands },
];

/** Options before the command that are followed by a value. */
const WITH_VALUE = ['--home', '--project', '--database-url'];

/** Adds the commands that these arguments may mean: one file's, or all where no command is named, or none of that name is known. */
export async function addCommands(program: Command, args: readonly string[]): Promise<void> {
  const word = args.find((arg, i) => !arg.startsWith('-') && !WITH_VALUE.includes(args[i - 1] ?? ''));
  const asked = COMMAND_FILES.filter(({ names }) => names.includes(word ?? ''));
  for (const { load } of asked.length > 0 ? asked : COMMAND_FILES) (await load())(program);
}
