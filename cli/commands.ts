/**
 * Every command. `troupe NAME` is in commands/NAME.ts, and only the file of the command that is
 * run is loaded: all of them cost more than a second of processor time at every start.
 */
import type { Command } from 'commander';
import { NOUNS } from '../api/operations/catalogue.ts';
import { GROUPS } from '../api/operations/groups.ts';

/** The commands that each page documents. */
const PAGES: Readonly<Record<string, readonly string[]>> = {
  'docs/demo.md': ['demo'],
  'docs/operations.md': [
    'up',
    'down',
    'doctor',
    'completion',
    'reset',
    'run',
    'backup',
    'restore',
    'upgrade',
    'rebuild',
    'checksum',
  ],
  'docs/mcp.md': ['mcp'],
  'docs/settings.md': ['project'],
  'docs/keys.md': ['key'],
  'docs/formats.md': ['import', 'export'],
  'docs/keeping.md': ['deadletters', 'reconcile', 'prune', 'erase'],
  'docs/rollouts.md': ['rollout', 'reward'],
  'docs/queries.md': ['sql', 'explain', 'views', 'episodes', 'lineage'],
  'docs/analysis.md': ['compare', 'teams', 'pool'],
  'docs/methods.md': ['judge', 'unjudged', 'method', 'blame', 'passes'],
  'docs/recipes.md': ['filter', 'recipe', 'dataset'],
  'docs/training.md': [
    'train',
    'sample',
    'logprobs',
    'values',
    'model',
    'checkpoints',
    'policies',
    'release',
    'rollback',
    'releases',
  ],
  'docs/plans.md': ['plan', 'gate', 'jobs'],
  'docs/schedules.md': ['schedule', 'receiver'],
  'docs/kafka.md': ['log'],
  'docs/benchmarks.md': ['bench'],
};

type AddTo = (program: Command) => unknown;

/** What adds the commands that are operations. */
const derived = Object.fromEntries(
  Object.keys(NOUNS).map((noun) => [
    noun,
    async () => {
      const { addOperations } = await import('./derive.ts');
      return { addTo: (program: Command) => addOperations(program, noun) };
    },
  ]),
);

/** Adds to the commands of a noun what only a command can do. */
const alsoBy = (noun: string, by: () => Promise<{ readonly addTo: (group: Command) => unknown }>) => async () => {
  const [{ addOperations }, { addTo }] = await Promise.all([import('./derive.ts'), by()]);
  return { addTo: async (program: Command) => addTo(await addOperations(program, noun)) };
};

/** What adds each command: the file named as the command is, or its operations. */
export const COMMANDS: Readonly<Record<string, () => Promise<{ readonly addTo: AddTo }>>> = {
  ...derived,
  demo: () => import('./commands/demo.ts'),
  up: () => import('./commands/up.ts'),
  down: () => import('./commands/down.ts'),
  doctor: () => import('./commands/doctor.ts'),
  mcp: () => import('./commands/mcp.ts'),
  completion: () => import('./commands/completion.ts'),
  sql: alsoBy('sql', () => import('./commands/sql.ts')),
  run: () => import('./commands/run.ts'),
  log: alsoBy('log', () => import('./commands/log.ts')),
  bench: () => import('./commands/bench.ts'),
};

const pageOf = (command: string): string => Object.keys(PAGES).find((page) => PAGES[page]!.includes(command))!;

/** Options before the command that are followed by a value. */
const WITH_VALUE = ['--home', '--project', '--database-url'];

/**
 * Adds the command that these arguments mean, or, for help and for an unknown name, only the names and sentences of all.
 */
export async function addCommands(program: Command, args: readonly string[]): Promise<void> {
  const words = args.filter((arg, i) => !arg.startsWith('-') && !WITH_VALUE.includes(args[i - 1] ?? ''));
  const word = words[0] === 'help' ? words[1] : words[0];
  const file = Object.hasOwn(COMMANDS, word ?? '') ? COMMANDS[word!] : undefined;
  if (file) await (await file()).addTo(program);
  for (const [group, commands] of Object.entries(GROUPS)) {
    for (const [name, about] of Object.entries(commands)) {
      const command = program.commands.find((one) => one.name() === name) ?? (file ? null : program.command(name));
      if (!command) continue;
      command.description(about).helpGroup(`${group}:`);
      finish(command, `troupe ${name}`, pageOf(name));
    }
  }
}

/** What the help of every command and subcommand ends with, and what a wrong option is answered with. */
function finish(command: Command, path: string, page: string): void {
  command
    .exitOverride()
    .showHelpAfterError(`(${path} --help shows its arguments and options)`)
    .addHelpText('after', `\nOptions of every command: troupe --help. Documentation: ${page}`);
  for (const inner of command.commands) finish(inner, `${path} ${inner.name()}`, page);
}
