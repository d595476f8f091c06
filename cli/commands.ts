/**
 * Every command by group, with the sentence of its help, and which file implements it. Only the file of the command that is run is
 * loaded: all of them cost more than a second of processor time at every start.
 */
import type { Command } from 'commander';

type Listed = {
  /** The page that documents the command. */
  readonly page: string;
  readonly about: string;
};

/** In the order of the help. */
export const GROUPS: Readonly<Record<string, Readonly<Record<string, Listed>>>> = {
  'Set up': {
    demo: {
      page: 'docs/demo.md',
      about: 'train a coder and a verifier from recorded episodes: the whole loop, on this machine',
    },
    up: {
      page: 'docs/operations.md',
      about: 'run everything: API, web page, projector, judge, trainer and a sampling process for each released policy',
    },
    doctor: { page: 'docs/operations.md', about: 'show each setting with its origin, and check what Troupe needs' },
    project: { page: 'docs/settings.md', about: 'create and list projects, each a database of its own' },
    key: { page: 'docs/keys.md', about: 'create, list and revoke API keys' },
    reset: {
      page: 'docs/operations.md',
      about: 'delete a home: its embedded database, datasets, checkpoints, artifacts and archives',
    },
  },
  Record: {
    import: {
      page: 'docs/formats.md',
      about: 'import trajectories from files or folders; the format is detected from the content',
    },
    export: { page: 'docs/formats.md', about: 'write the log, or episodes in a two-way format, as JSON lines' },
    deadletters: { page: 'docs/keeping.md', about: 'list, show and replay records that were rejected' },
  },
  Play: {
    rollout: {
      page: 'docs/rollouts.md',
      about: 'have a team play tasks, several episodes each, and record complete groups',
    },
    reward: {
      page: 'docs/rollouts.md',
      about: 'reward recorded episodes by a program, a server, a model as judge, or SQL',
    },
  },
  Query: {
    sql: { page: 'docs/queries.md', about: 'run one read-only SQL query over the views of schema traj' },
    episodes: { page: 'docs/queries.md', about: 'list episodes' },
    show: {
      page: 'docs/queries.md',
      about: 'show one episode as a conversation with its tool calls, feedback and credits',
    },
    compare: {
      page: 'docs/analysis.md',
      about: 'compare two checkpoints, models or teams on the tasks that both tried',
    },
    lineage: {
      page: 'docs/queries.md',
      about: 'show what an episode, step, dataset or checkpoint comes from, and what was made of it',
    },
  },
  Judge: {
    judge: { page: 'docs/methods.md', about: 'run methods over closed episodes and store their results' },
    method: { page: 'docs/methods.md', about: 'list, show and run the methods of the catalogue' },
    blame: {
      page: 'docs/methods.md',
      about: 'attribute failures to agents and steps; evaluate and annotate attributions',
    },
    teams: { page: 'docs/analysis.md', about: 'list teams, or those most similar to one' },
    pool: { page: 'docs/analysis.md', about: 'choose a team for each kind of query, and write training triplets' },
    passes: { page: 'docs/methods.md', about: 'compute embeddings of recorded tasks with a model of yours' },
  },
  Train: {
    filter: { page: 'docs/recipes.md', about: 'show a filter of recipes as a JSON tree and as SQL' },
    recipe: { page: 'docs/recipes.md', about: 'print the JSON Schema of a recipe' },
    dataset: {
      page: 'docs/recipes.md',
      about: 'freeze, list, show, compare and export datasets; recipes that come with Troupe',
    },
    train: { page: 'docs/training.md', about: 'train a model: sft, dpo, rl' },
    plan: {
      page: 'docs/plans.md',
      about: 'check, run and show plans: from recorded episodes to a released checkpoint',
    },
    gate: { page: 'docs/plans.md', about: 'show the report of a gate, and accept or refuse a candidate' },
    sample: { page: 'docs/training.md', about: 'generate text with a model or checkpoint' },
    logprobs: {
      page: 'docs/training.md',
      about: 'compute the log-probability of each token of rows or recorded steps',
    },
    values: {
      page: 'docs/training.md',
      about: 'compute value estimates for recorded steps with a model that has a value head',
    },
    model: { page: 'docs/training.md', about: 'create, inspect, merge and export model directories' },
    checkpoints: { page: 'docs/training.md', about: 'list, verify, move and prune checkpoints' },
    policies: { page: 'docs/training.md', about: 'list policies with the checkpoint each serves and its newest one' },
    release: { page: 'docs/training.md', about: 'release checkpoints: an atomic map from policies to checkpoints' },
    rollback: { page: 'docs/training.md', about: 'restore the whole map of an earlier release' },
  },
  Schedule: {
    schedule: {
      page: 'docs/schedules.md',
      about: 'request jobs by cron or at an interval: add, list, show, pause, resume, run, remove',
    },
  },
  Operate: {
    run: {
      page: 'docs/operations.md',
      about: 'run one process of Troupe: ingest, project, judge, work, infer or serve',
    },
    jobs: { page: 'docs/plans.md', about: 'list jobs, newest first, and cancel one' },
    backup: {
      page: 'docs/operations.md',
      about: 'copy a project, with the files of its home, into one file while it runs',
    },
    restore: { page: 'docs/operations.md', about: 'make a project again from such a file, in a home of any path' },
    upgrade: {
      page: 'docs/operations.md',
      about: 'move a home to the PostgreSQL of this Troupe, from the version that made it',
    },
    rebuild: {
      page: 'docs/operations.md',
      about: 'rebuild every table from the log, beside live ingestion, and swap them in',
    },
    checksum: { page: 'docs/operations.md', about: 'print a SHA-256 for each table of facts and judgements' },
    log: {
      page: 'docs/kafka.md',
      about:
        'list the logs of the project, make its topic, or take a topic that replaced the one that was read as a new log',
    },
    reconcile: {
      page: 'docs/keeping.md',
      about: 'recount log and tables, and check that every received event is accounted for',
    },
    prune: { page: 'docs/keeping.md', about: 'move old episodes from the database into Parquet archives, and back' },
    erase: { page: 'docs/keeping.md', about: 'erase the text of an episode or a person, and list what used it' },
    bench: {
      page: 'docs/benchmarks.md',
      about: 'measure Troupe against a peer or a ceiling in one run (needs a checkout)',
    },
  },
};

export type CommandFile = {
  /** The commands it adds. */
  readonly names: readonly string[];
  readonly load: () => Promise<(program: Command) => void>;
};

export const COMMAND_FILES: readonly CommandFile[] = [
  {
    names: ['import', 'export', 'deadletters'],
    load: async () => (await import('./commands/record.ts')).recordCommands,
  },
  {
    names: ['sql'],
    load: async () => (await import('./commands/sql.ts')).sqlCommand,
  },
  {
    names: ['episodes', 'show', 'lineage', 'rebuild', 'checksum', 'reconcile'],
    load: async () => (await import('./commands/ask.ts')).askCommands,
  },
  { names: ['compare'], load: async () => (await import('./commands/compare.ts')).compareCommands },
  { names: ['log'], load: async () => (await import('./commands/log.ts')).logCommands },
  { names: ['erase'], load: async () => (await import('./commands/keep.ts')).keepCommands },
  { names: ['prune'], load: async () => (await import('./commands/prune.ts')).pruneCommands },
  { names: ['rollout'], load: async () => (await import('./commands/rollout.ts')).rolloutCommands },
  { names: ['reward'], load: async () => (await import('./commands/reward.ts')).rewardCommands },
  { names: ['judge'], load: async () => (await import('./commands/judge.ts')).judgeCommands },
  { names: ['teams', 'pool'], load: async () => (await import('./commands/pool.ts')).poolCommands },
  { names: ['blame'], load: async () => (await import('./commands/blame.ts')).blameCommands },
  { names: ['method'], load: async () => (await import('./commands/method.ts')).methodCommands },
  {
    names: ['filter', 'recipe', 'dataset', 'train', 'sample', 'logprobs', 'values', 'passes'],
    load: async () => (await import('./commands/learn.ts')).learnCommands,
  },
  { names: ['plan'], load: async () => (await import('./commands/plan.ts')).planCommands },
  { names: ['gate'], load: async () => (await import('./commands/gate.ts')).gateCommands },
  { names: ['policies', 'rollback'], load: async () => (await import('./commands/releases.ts')).releasesCommands },
  { names: ['model'], load: async () => (await import('./commands/model.ts')).modelCommands },
  {
    names: ['up', 'run', 'demo', 'jobs', 'release', 'checkpoints', 'doctor', 'reset'],
    load: async () => (await import('./commands/run.ts')).runCommands,
  },
  { names: ['backup', 'restore', 'upgrade'], load: async () => (await import('./commands/backup.ts')).backupCommands },
  { names: ['key'], load: async () => (await import('./commands/key.ts')).keyCommands },
  { names: ['schedule'], load: async () => (await import('./commands/schedule.ts')).scheduleCommands },
  { names: ['project'], load: async () => (await import('./commands/project.ts')).projectCommands },
  { names: ['bench'], load: async () => (await import('./commands/bench.ts')).benchCommands },
];

/** Options before the command that are followed by a value. */
const WITH_VALUE = ['--home', '--project', '--database-url'];

/**
 * Adds the commands that these arguments may mean: those of one file, or, for help and for an unknown name, only the names and
 * sentences of all.
 */
export async function addCommands(program: Command, args: readonly string[]): Promise<void> {
  const words = args.filter((arg, i) => !arg.startsWith('-') && !WITH_VALUE.includes(args[i - 1] ?? ''));
  const word = words[0] === 'help' ? words[1] : words[0];
  const file = COMMAND_FILES.find(({ names }) => names.includes(word ?? ''));
  if (file) (await file.load())(program);
  for (const [group, commands] of Object.entries(GROUPS)) {
    for (const [name, { page, about }] of Object.entries(commands)) {
      const command = program.commands.find((one) => one.name() === name) ?? (file ? null : program.command(name));
      if (!command) continue;
      command.description(about).helpGroup(`${group}:`);
      finish(command, `troupe ${name}`, page);
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
