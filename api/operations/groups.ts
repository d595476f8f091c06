/**
 * What the commands do, by group, in the order of the help. An operation that is a verb by itself has its sentence here: help loads no
 * declaration.
 */
export const GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'Set up': {
    demo: 'train a coder and a verifier from recorded episodes: the whole loop, on this machine',
    up: 'run everything: API, web page, projector, judge, trainer and a sampling process for each released policy',
    down: 'end the `troupe up` of a home, also one that runs in the background',
    doctor: 'show each setting with its origin, and check what Troupe needs',
    mcp: 'give a coding agent the operations as tools (Model Context Protocol)',
    completion: 'print what bash, zsh or fish needs to complete command lines',
    project: 'create and list projects, each in a separate database',
    key: 'create, list and revoke API keys',
    reset: 'delete a home: its embedded database, datasets, checkpoints, artifacts and archives',
  },
  Record: {
    import: 'import trajectories from files or folders; the format is detected from the content',
    export: 'write the log, or episodes in a two-way format, as JSON lines',
    deadletters: 'list, show and replay records that were rejected',
  },
  Play: {
    rollout: 'have a team play tasks, several episodes each, and record complete groups',
    reward: 'reward recorded episodes by a program, a server, a model as judge, or SQL',
  },
  Query: {
    sql: 'run one read-only SQL query over the views of schemas traj and report',
    explain: 'show how PostgreSQL would run a query, without running it',
    views: 'list the views that SQL reads, and the columns of one',
    episodes: 'list episodes, and show one as a conversation',
    compare: 'compare two checkpoints, models or teams on the tasks that both tried',
    lineage: 'show what an episode, step, dataset or checkpoint comes from, and what was made of it',
  },
  Judge: {
    judge: 'run methods over closed episodes and store their results',
    unjudged: 'list the closed episodes that changed since methods last judged them',
    method: 'list, show and run the methods of the catalogue',
    blame: 'attribute failures to agents and steps; evaluate and annotate attributions',
    teams: 'list teams, those most similar to one, and the released version of one',
    pool: 'choose a team for each kind of query, and write training triplets',
    passes: 'compute embeddings of recorded tasks with a model of yours',
  },
  Train: {
    filter: 'show a filter of recipes as a JSON tree and as SQL',
    recipe: 'print the JSON Schema of a recipe',
    dataset: 'freeze, list, show, compare and export datasets; recipes that come with Troupe',
    train: 'train a model: sft, dpo, rl, value, reward',
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
    releases: 'list releases, newest first',
  },
  Schedule: {
    schedule: 'request jobs by cron or at an interval: add, list, show, pause, resume, run, remove',
    receiver: 'list who is notified of runs and schedules, and send a test message',
  },
  Operate: {
    run: 'run one process of Troupe: ingest, project, judge, work, infer or serve',
    jobs: 'list jobs, newest first, show one with its numbers, and cancel one',
    backup: 'copy a project, with the files of its home, into one file while it runs',
    restore: 'make a project again from its backup, in a home of any path',
    upgrade: 'move a home to the PostgreSQL of this Troupe, from the version that made it',
    rebuild: 'rebuild every table from the log, beside live ingestion, and swap them in',
    checksum: 'print a SHA-256 for each table of facts and judgements',
    log: 'list the logs of the project, make its topic, or take a topic that replaced the one that was read as a new log',
    reconcile: 'recount log and tables, and check that every received event is accounted for',
    prune: 'move old episodes from the database into Parquet archives, and back',
    erase: 'erase the text of an episode or a person, and list what used it',
    bench: 'measure Troupe against a peer or a ceiling in one run (needs a checkout)',
  },
};

/** The sentence of an operation that is a verb by itself. */
export const aboutOf = (name: string): string =>
  Object.values(GROUPS).flatMap((group) => (Object.hasOwn(group, name) ? [group[name]!] : []))[0] ?? '';
