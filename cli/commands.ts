/**
 * Every command by group, with the sentence of its help, and which file implements it. Only the file of the command that is run is
 * loaded: all of them cost more than a second of processor time at every start.
 */
import type { Command } from 'commander';

type Group = {
  /** The page that documents these commands. */
  readonly page: string;
  readonly commands: Readonly<Record<string, string>>;
};

/** In the order of the help. */
export const GROUPS: Readonly<Record<string, Group>> = {
  'Set up': {
    page: 'docs/settings.md',
    commands: {
      demo: 'train a coder and a verifier from recorded episodes: the whole loop, on this machine',
      up: 'run everything: API, web page, projector, judge, trainer and a sampling process for each released policy',
      doctor: 'show each setting with its origin, and check what Troupe needs',
      project: 'create and list projects, each a database of its own',
      key: 'create, list and revoke API keys',
      reset: 'delete a home: its embedded database, datasets, checkpoints, artifacts and archives',
    },
  },
  Record: {
    page: 'docs/formats.md',
    commands: {
      import: 'import trajectories from files or folders; the format is detected from the content',
      export: 'write the log, or episodes in a two-way format, as JSON lines',
      deadletters: 'list, show and replay records that were rejected',
    },
  },
  Play: {
    page: 'docs/rollouts.md',
    commands: {
      rollout: 'have a team play tasks, several episodes each, and record complete groups',
      reward: 'reward recorded episodes by a program, a server, a model as judge, or SQL',
    },
  },
  Query: {
    page: 'docs/queries.md',
    commands: {
      sql: 'run one read-only SQL query over the views of schema traj',
      episodes: 'list episodes',
      show: 'show one episode as a conversation with its tool calls, feedback and credits',
      compare: 'compare two checkpoints, models or teams on the tasks that both tried',
      lineage: 'show what an episode, step, dataset or checkpoint comes from, and what was made of it',
    },
  },
  Judge: {
    page: 'docs/methods.md',
    commands: {
      judge: 'run methods over closed episodes and store their results',
      method: 'list, show and run the methods of the catalogue',
      blame: 'attribute failures to agents and steps; evaluate and annotate attributions',
      teams: 'list teams, or those most similar to one',
      pool: 'choose a team for each kind of query, and write training triplets',
      passes: 'compute embeddings of recorded tasks with a model of yours',
    },
  },
  Train: {
    page: 'docs/training.md',
    commands: {
      filter: 'show a filter of recipes as a JSON tree and as SQL',
      recipe: 'print the JSON Schema of a recipe',
      dataset: 'freeze, list, show, compare and export datasets; recipes that come with Troupe',
      train: 'train a model: sft, dpo, rl',
      plan: 'check, run and show plans: from recorded episodes to a released checkpoint',
      gate: 'show the report of a gate, and accept or refuse a candidate',
      sample: 'generate text with a model or checkpoint',
      logprobs: 'compute the log-probability of each token of rows or recorded steps',
      values: 'compute value estimates for recorded steps with a model that has a value head',
      model: 'create, inspect, merge and export model directories',
      checkpoints: 'list, verify, move and prune checkpoints',
      policies: 'list policies with the checkpoint each serves and its newest one',
      release: 'release checkpoints: an atomic map from policies to checkpoints',
      rollback: 'restore the whole map of an earlier release',
    },
  },
  Schedule: {
    page: 'docs/schedules.md',
    commands: {
      schedule: 'request jobs by cron or at an interval: add, list, show, pause, resume, run, remove',
    },
  },
  Operate: {
    page: 'docs/operations.md',
    commands: {
      run: 'run one process of Troupe: ingest, project, judge, work, infer or serve',
      jobs: 'list jobs, newest first, and cancel one',
      backup: 'copy a project, with the files of its home, into one file while it runs',
      restore: 'make a project again from such a file, in a home of any path',
      upgrade: 'move a home to the PostgreSQL of this Troupe, from the version that made it',
      rebuild: 'rebuild every table from the log, beside live ingestion, and swap them in',
      checksum: 'print a SHA-256 for each table of facts and judgements',
      log: 'list the logs of the project, make its topic, or take a topic that replaced the one that was read as a new log',
      reconcile: 'recount log and tables, and check that every received event is accounted for',
      prune: 'move old episodes from the database into Parquet archives, and back',
      erase: 'erase the text of an episode or a person, and list what used it',
      bench: 'measure Troupe against a peer or a ceiling in one run (needs a checkout)',
    },
  },
};

/** Commands with a page of their own, in place of that of their group. */
const PAGES: Readonly<Record<string, string>> = {
  demo: 'docs/demo.md',
  up: 'docs/operations.md',
  doctor: 'docs/operations.md',
  reset: 'docs/operations.md',
  key: 'docs/keys.md',
  compare: 'docs/analysis.md',
  teams: 'docs/analysis.md',
  pool: 'docs/analysis.md',
  jobs: 'docs/plans.md',
  reconcile: 'docs/keeping.md',
  deadletters: 'docs/keeping.md',
  filter: 'docs/recipes.md',
  recipe: 'docs/recipes.md',
  dataset: 'docs/recipes.md',
  plan: 'docs/plans.md',
  gate: 'docs/plans.md',
  log: 'docs/kafka.md',
  prune: 'docs/keeping.md',
  erase: 'docs/keeping.md',
  bench: 'docs/benchmarks.md',
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
  for (const [group, { page, commands }] of Object.entries(GROUPS)) {
    for (const [name, about] of Object.entries(commands)) {
      const command = program.commands.find((one) => one.name() === name) ?? (file ? null : program.command(name));
      if (!command) continue;
      command.description(about).helpGroup(`${group}:`);
      finish(command, `troupe ${name}`, PAGES[name] ?? page);
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
