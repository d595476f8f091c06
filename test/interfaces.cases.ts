/** What test/interfaces.test.ts asks of every operation, in this order: its input for a name, and what the answer holds. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Event } from '../ingest/events/events.ts';
import { event } from './store/support/events.ts';

type Case = readonly [operation: string, input: (name: string) => Readonly<Record<string, unknown>>, answer: object];

export const SETTINGS = {
  ...{ judge: null, close_after: 1800, notify: { ops: { command: ['true'] } } },
  runners: { desk: { workers: true } },
  rewards: { one: { sql: 'select 1 as reward' } },
};

/** Folder of the models that are made. */
export const MODELS = mkdtempSync(join(tmpdir(), 'troupe-models-'));

/** A chat, and a line that is none. */
export const CHATS = join(MODELS, 'chats.jsonl');
const chat = {
  messages: [
    { role: 'user', content: '1 + 1?' },
    { role: 'assistant', content: '2' },
  ],
};
writeFileSync(CHATS, `${JSON.stringify(chat)}\n{"messages": [\n`);

/** JSON lines of the tasks of a rollout. */
export const TASKS = [{ task_id: 'a', prompt: 'x' }];

const job = { kind: 'freeze', spec: { recipe: { name: 'solved', where: 'reward >= 1', unit: 'step' } } };
const unknown = { code: 'not_found' };

const plan = {
  name: 'nightly',
  policies: {
    fresh: {
      recipe: { where: 'reward >= 1', split: { held_out: 0.2, seed: 1 } },
      train: { method: 'sft', steps: 10, batch: 8, learning_rate: 1e-3 },
    },
  },
  gate: { kind: 'offline' },
};

const bad = Buffer.from([0xff, 0x7b]);
/** Records that were rejected before the operations are asked. */
export const LETTERS = [
  { place: 'a', code: 'bad_json', raw: Buffer.from('{"no": json') },
  { place: 'b', code: 'bad_json', raw: bad },
  { place: 'c', code: 'unknown_event', raw: Buffer.from('{}') },
];

/** What was recorded before the operations are asked. */
export const RECORDED: readonly Event[] = [
  event('team.defined', { team_id: 'pair', agents: [{ role: 'coder' }, { role: 'tester' }], edges: [] }),
  event('team.defined', { team_id: 'solo', agents: [{ role: 'coder' }], edges: [] }),
  event(
    'episode.started',
    { episode_id: 'first', task_id: 'sums', team_id: 'pair', tags: { phase: 'rl' } },
    { time: '2026-01-01T00:00:00Z' },
  ),
  event('episode.finished', { episode_id: 'first', outcome: 'success' }, { time: '2026-01-01T00:01:00Z' }),
  event('episode.started', { episode_id: 'second', task_id: 'sums' }, { time: '2026-01-02T00:00:00Z' }),
];

export const CASES: readonly Case[] = [
  [
    'schedule.add',
    (name) => ({
      name,
      cron: '0 3 1 1 *',
      zone: 'Europe/Berlin',
      hours: { from: '02:00', to: '05:00' },
      job,
      dry_run: true,
    }),
    { added: false, definition: { catch_up_seconds: 86_400, hours: { from: '02:00', to: '05:00' } } },
  ],
  [
    'schedule.add',
    (name) => ({
      ...{ name, cron: '0 3 1 1 *', overlap: 'queue', job, jitter_seconds: 600, when: { new_episodes: 7 } },
      ...{ pause_after: { failed: 5 }, budget_per_day: { tokens: 1000, usd: 2.5 } },
    }),
    { added: true, definition: { pause_after: { failed: 5, refused: 2 }, budget_per_day: { tokens: 1000, usd: 2.5 } } },
  ],
  ['schedule.add', (name) => ({ name, cron: '0 3 1 1 *', job }), { code: 'conflict' }],
  ['schedule.add', (name) => ({ name, every_seconds: 5, job }), { code: 'usage' }],
  ['schedule.add', (name) => ({ name, job }), { code: 'usage' }],
  ['schedule.list', () => ({ limit: 2, sort: '-name' }), { total: 4, items: [{}, {}] }],
  ['schedule.list', () => ({ after: 'nonsense' }), { code: 'usage' }],
  ['schedule.show', (name) => ({ name, limit: 3 }), { name: 'NAME', runs: [], skipped: [] }],
  ['schedule.show', () => ({ name: 'nobody' }), unknown],
  [
    'schedule.pause',
    (name) => ({ name, reason: 'labels are "checked"' }),
    { paused: { reason: 'labels are "checked"' } },
  ],
  ['schedule.pause', (name) => ({ name, reason: 'again' }), { code: 'conflict' }],
  ['schedule.dry-run', (name) => ({ name }), { paused: { by: 'http' }, decisions: [] }],
  ['schedule.backfill', (name) => ({ name, from: '2026-01-01', to: '2026-01-02' }), { code: 'conflict' }],
  ['schedule.resume', (name) => ({ name }), { paused: null }],
  ['schedule.resume', (name) => ({ name, reason: 'none' }), { code: 'conflict' }],
  [
    'schedule.backfill',
    (name) => ({ name, from: '2026-01-01', to: '2026-01-02', dry_run: true }),
    { started: false, ticks: [{ events: 0 }] },
  ],
  ['schedule.backfill', (name) => ({ name, from: '2026-01-01', to: '2026-01-02' }), { started: true, ticks: [{}] }],
  ['schedule.backfill', (name) => ({ name, from: 'soon' }), { code: 'usage' }],
  ['schedule.end-backfill', (name) => ({ name }), { ended: 1 }],
  ['schedule.run', (name) => ({ name }), { name: 'NAME', job_id: 'schedule/NAME/TIME' }],
  ['schedule.run', () => ({ name: 'nobody' }), unknown],
  ['schedule.show', (name) => ({ name }), { runs: [{ state: 'requested' }] }],
  ['schedule.remove', (name) => ({ name, reason: 'replaced' }), { removed: true }],
  ['schedule.remove', (name) => ({ name }), unknown],
  ['receiver.list', () => ({}), { items: [{ name: 'ops', sent: 0 }], total: 1, next: null }],
  ['receiver.test', () => ({ name: 'ops' }), { name: 'ops', sent: true }],
  ['receiver.test', () => ({ name: 'nobody' }), unknown],
  ['deadletters.list', () => ({ limit: 2 }), { total: 3, items: [{ place: 'c' }, { place: 'b', bytes: 2 }] }],
  ['deadletters.list', () => ({ code: 'unknown_event' }), { total: 1, next: null }],
  ['deadletters.show', () => ({ id: 1 }), { place: 'a', raw: '{"no": json', raw_base64: null }],
  ['deadletters.show', () => ({ id: 2 }), { raw: null, raw_base64: bad.toString('base64') }],
  ['deadletters.show', () => ({ id: 77 }), unknown],
  ['deadletters.replay', () => ({}), { code: 'usage' }],
  ['deadletters.replay', () => ({ id: [3] }), { tried: 1, replayed: [], refused: [{ dead_letter_id: 3 }] }],
  ['deadletters.replay', () => ({ all: true, code: 'nothing_has_it' }), { tried: 0, refused: [] }],
  [
    'key.create',
    (name) => ({ name, scopes: ['ingest', 'read'], expires: '12h' }),
    { name: 'NAME', key: 'KEY', scopes: ['ingest', 'read'], expires_at: 'TIME' },
  ],
  ['key.create', (name) => ({ name, scopes: ['read'], expires: 'soon' }), { code: 'usage' }],
  ['key.create', (name) => ({ name, scopes: ['everything'] }), { code: 'usage' }],
  ['key.list', () => ({ sort: 'name', limit: 2 }), { total: 5, items: [{ name: 'http', state: 'live' }, {}] }],
  ['key.revoke', (name) => ({ key: name }), { name: 'NAME', state: 'revoked' }],
  ['key.revoke', (name) => ({ key: name }), unknown],
  ['episodes.list', () => ({ limit: 1 }), { total: 2, items: [{ episode_id: 'second' }], waiting_events: 0 }],
  ['episodes.list', () => ({ tag: { phase: 'rl' } }), { total: 1, items: [{ episode_id: 'first' }] }],
  ['episodes.list', () => ({ filter: 'task_id = sums', closed: true }), { total: 1, next: null, warnings: [] }],
  ['episodes.list', () => ({ filter: 'role = coder' }), { code: 'usage' }],
  ['teams.list', () => ({ sort: '-episodes' }), { total: 2, items: [{ team_id: 'pair', episodes: 1 }, {}] }],
  ['teams.like', () => ({ team: 'pair' }), { team_id: 'pair', teams: [{ team_id: 'solo' }] }],
  ['teams.like', () => ({ team: 'nobody' }), unknown],
  ['teams.show', () => ({ team: 'nobody' }), unknown],
  ['lineage', () => ({ id: 'first', depth: 1 }), { found: [{ kind: 'episode', id: 'first' }], pruned: [] }],
  ['lineage', () => ({ id: 'nobody' }), unknown],
  ['lineage', () => ({ id: 'first', depth: 11 }), { code: 'usage' }],
  ['compare', () => ({ first: 'pair', second: 'solo', level: 0.9 }), { level: 0.9, first: { id: 'pair' }, mixed: 0 }],
  ['compare', () => ({ first: 'pair', second: 'nobody' }), unknown],
  ['checksum', () => ({}), { tables: { episodes: { rows: 2 } } }],
  [
    'import',
    () => ({ paths: [CHATS], dry_run: true }),
    {
      ...{ format: 'openai-chat', files: 1, episodes: 1, events: { accepted: 0, rejected: 1 } },
      ...{ errors: [{ line: 2, code: 'bad_json' }], mapping: expect.any(Array), stays_open: [] },
    },
  ],
  ['import', () => ({ paths: [CHATS], format: 'openai-chats' }), { code: 'usage' }],
  [
    'judge',
    () => ({ methods: [{ method: 'grpo_advantage', params: { scale_std: false } }], episodes: ['first'] }),
    { episodes: expect.any(Number), methods: ['grpo_advantage'], close_after: 1800 },
  ],
  ['judge', () => ({ methods: [{ method: 'grpo_advantag' }] }), { code: 'method_unknown' }],
  ['judge', () => ({ episodes: ['nobody'] }), unknown],
  ['judge', () => ({ share: '3/2' }), { code: 'usage' }],
  ['judge', () => ({ filter: 'task_id = none' }), { episodes: 0, warnings: [expect.any(String), expect.any(String)] }],
  ['reconcile', () => ({}), { ok: false, topics: [], split_identities: [] }],
  [
    'filter',
    () => ({ filter: 'role = coder and reward >= 0.5' }),
    { filter: { and: [{ field: 'role' }, { field: 'reward', value: 0.5 }] }, sql: expect.stringContaining('coder') },
  ],
  ['filter', () => ({ filter: 'reward >' }), { code: 'recipe_invalid' }],
  ['rebuild', () => ({}), { archived: 0, left_out: 0, not_judged: [] }],
  [
    'dataset.freeze',
    () => ({ recipe: { name: 'whole', unit: 'episode', where: 'reward > 9' } }),
    { code: 'dataset_empty' },
  ],
  [
    'checkpoints.list',
    () => ({ sort: 'checkpoint_id', limit: 1 }),
    { total: 2, items: [{ checkpoint_id: 'c1', kept: true }] },
  ],
  [
    'checkpoints.list',
    () => ({ policy: 'solved' }),
    { warnings: ['Nothing has policy = "solved". Did you mean solver?'] },
  ],
  ['checkpoints.list', () => ({ filter: 'reward > 1' }), { code: 'usage' }],
  ['episodes.show', () => ({ episode: 'first' }), { episode: { episode_id: 'first' }, conversation: [], next: null }],
  ['episodes.show', () => ({ episode: 'nobody' }), unknown],
  ['episodes.show', () => ({ episode: 'first', after: 'nonsense' }), { code: 'usage' }],
  [
    'sql',
    () => ({ sql: 'select episode_id from traj.episodes order by 1', limit: 1 }),
    { columns: [{ name: 'episode_id', type: 'text' }], rows: [['first']], truncated: true },
  ],
  ['sql', () => ({ sql: "select 'NaN'::float8, null" }), { rows: [['NaN', null]], truncated: false }],
  ['sql', () => ({ sql: 'delete from traj.episodes' }), { code: 'sql_refused' }],
  ['sql', () => ({ sql: 'select 1', limit: -1 }), { code: 'usage' }],
  ['explain', () => ({ sql: 'select * from traj.episodes' }), { plan: expect.arrayContaining([expect.any(String)]) }],
  ['explain', () => ({ sql: 'select 1; select 2' }), { code: 'sql_refused' }],
  ['views.list', () => ({ limit: 2 }), { items: [{ name: 'report.agent_shares' }, {}] }],
  ['views.show', () => ({ view: 'episodes' }), { name: 'traj.episodes', about: expect.any(String) }],
  ['views.show', () => ({ view: 'epsodes' }), unknown],
  ['blame.list', () => ({ episode: 'first' }), { items: [], total: 0, next: null }],
  ['blame.list', () => ({ sort: 'reason' }), { code: 'usage' }],
  ['blame.evaluate', () => ({ group: 'difficulty' }), { cases: 0, match: 'exact', groups: [{ group: 'all' }] }],
  ['blame.evaluate', () => ({ method: 'no_such' }), unknown],
  ['blame.evaluate', () => ({ cross_validate: 1 }), { code: 'usage' }],
  ['blame.modes', () => ({}), { annotators: [], agreement: [] }],
  [
    'blame.annotate',
    () => ({ model: 'policy:judge' }),
    { episodes: 0, cached: 0, stopped: null, usage: { calls: 0, input_tokens: 0 } },
  ],
  ['blame.annotate', () => ({ model: 'policy:judge', method: 'guess' }), { code: 'usage' }],
  ['reward', () => ({ use: 'one', filter: 'task_id = nothing' }), { episodes: 0, rewarded: 0, failed: {} }],
  ['reward', () => ({ use: 'nobody' }), unknown],
  ['reward', () => ({ use: 'one', filter: 'task_id =' }), { code: 'recipe_invalid' }],
  ['passes.embed', () => ({ model: '/nowhere/at/all' }), unknown],
  ['log.list', () => ({}), { total: 1, items: [{ read: null, replaced_at: null }] }],
  ['log.adopt', () => ({ dry_run: true }), { code: 'usage' }],
  ['checkpoints.folder', () => ({ quick: true }), { latest: null, checkpoints: [] }],
  ['checkpoints.latest', () => ({}), unknown],
  ['checkpoints.show', () => ({ checkpoint: '0123456789abcdef' }), unknown],
  ['checkpoints.verify', () => ({ checkpoint: '0123456789abcdef' }), unknown],
  ['checkpoints.add', () => ({ checkpoint: '0123456789abcdef', policy: 'solver' }), unknown],
  ['checkpoints.prune', () => ({ keep_last: 0 }), { code: 'usage' }],
  ['checkpoints.prune', () => ({ keep_last: 1, keep_best: 'a:b' }), { code: 'usage' }],
  ['checkpoints.prune', () => ({ keep_last: 1 }), { project: true, kept: [], removed: [], warnings: [] }],
  ['checkpoints.push', () => ({ checkpoint: './nowhere', store: 'ftp://x' }), { code: expect.any(String) }],
  ['checkpoints.pull', () => ({ store: '/nowhere/at/all', dir: '/nowhere' }), unknown],
  [
    'backup',
    (name) => ({ file: join(MODELS, `${name}.tar.gz`) }),
    { missing: expect.any(Array), warnings: expect.any(Array) },
  ],
  ['restore', () => ({ file: '/nowhere/at/all.tar.gz' }), unknown],
  ['upgrade', () => ({ from: '/nowhere/at/all' }), { code: 'usage' }],
  ['reset', () => ({ dry_run: true }), { there: true, removed: false }],
  ['export', (name) => ({ out: join(tmpdir(), `${name}.jsonl`), episode: ['first'] }), { lines: 2, left_out_calls: 0 }],
  ['export', (name) => ({ out: join(tmpdir(), `${name}.jsonl`), format: 'no-format' }), { code: 'usage' }],
  ['erase', () => ({}), { code: 'usage' }],
  ['erase', () => ({ episode: 'nobody' }), unknown],
  [
    'erase',
    () => ({ episode: 'second', dry_run: true }),
    { erasure_id: null, episodes: ['second'], archives: [], bodies: 0, warnings: [] },
  ],
  ['prune.start', () => ({ older_than: 'long' }), { code: 'usage' }],
  [
    'prune.start',
    () => ({ older_than: '2026-01-02', dry_run: true }),
    { before: expect.any(String), episodes: 0, events: 0, archives: [] },
  ],
  ['prune.restore', () => ({ place: '2026-01-01-0123456789ab' }), unknown],
  ['dataset.freeze', () => ({ recipe: { name: 'whole', unti: 'episode' } }), { code: 'recipe_invalid' }],
  [
    'dataset.freeze',
    () => ({ recipe: { name: 'whole', unit: 'episode' }, allow_empty: true }),
    { name: 'whole', fresh: expect.any(Boolean), warnings: expect.any(Array) },
  ],
  ['dataset.list', () => ({ name: 'whole' }), { total: 1, items: [{ name: 'whole', problem: null }], others: [] }],
  ['dataset.list', () => ({ filter: 'name = hole' }), { warnings: ['Nothing has name = "hole". Did you mean whole?'] }],
  ['dataset.show', () => ({ dataset: 'whole' }), { name: 'whole', card: expect.stringContaining('# whole') }],
  ['dataset.show', () => ({ dataset: 'nobody' }), unknown],
  ['dataset.diff', () => ({ first: 'whole', second: 'whole' }), { same: 0, added: [], recipe: [] }],
  ['dataset.diff', () => ({ first: 'whole', second: 'nobody' }), unknown],
  ['dataset.outdated', () => ({ dataset: 'whole' }), { outdated: false, rows: { same: 0 }, methods: [] }],
  ['dataset.recipes', () => ({ name: 'dr-mas' }), { recipes: [{ name: 'dr-mas', text: expect.any(String) }] }],
  ['dataset.recipes', () => ({ name: 'dr-mass' }), unknown],
  ['dataset.mask', () => ({ dataset: 'whole', model: '0123456789abcdef' }), unknown],
  ['dataset.export', (name) => ({ dataset: 'whole', layout: 'trl-sft', out: name }), { code: 'usage' }],
  ['release', () => ({ policies: { solver: 'none' } }), unknown],
  ['release', () => ({ policies: { solver: 'c2' }, reason: 'better' }), { policies: { solver: 'c2' } }],
  ['release', () => ({ policies: { solver: 'upstream:hosted/gpt' } }), unknown],
  ['releases.list', () => ({ limit: 1 }), { total: 5, items: [{ policies: { solver: 'c2' } }] }],
  ['releases.list', () => ({ filter: 'reason = better' }), { total: 4 }],
  ['releases.list', () => ({ filter: 'reward > 1' }), { code: 'usage' }],
  ['releases.list', () => ({ filter: 'by = nobody' }), { total: 0, warnings: [expect.stringContaining('nobody')] }],
  ['rollback', () => ({ release: 'nobody' }), unknown],
  ['rollback', () => ({ release: 'base' }), { back_to: 'base', policies: { solver: 'c1' }, warnings: [] }],
  [
    'policies.list',
    () => ({}),
    {
      total: 1,
      items: [{ policy: 'solver', released: 'c1', newest: 'c2' }],
      watch: null,
      rolled_back: expect.any(String),
    },
  ],
  [
    'plan.check',
    () => ({ plan, rounds: 3, set: { seed: 2 } }),
    {
      plan: 'nightly',
      rounds: 3,
      problems: [expect.stringContaining('fresh has no released checkpoint'), expect.any(String), expect.any(String)],
    },
  ],
  ['plan.check', () => ({ plan: { name: 'nightly' } }), { code: 'plan_invalid' }],
  ['plan.check', () => ({ plan, rounds: 0 }), { code: 'usage' }],
  ['plan.check', () => ({ plan, set: { 'gate.kind.of': 1 } }), { code: 'plan_invalid' }],
  ['plan.run', () => ({ plan, detach: true }), { code: 'plan_blocked' }],
  ['plan.list', () => ({ limit: 1 }), { total: 1, items: [{ run: 'read-1', released: null }] }],
  ['plan.list', () => ({ filter: 'run = nobody' }), { total: 0, warnings: [expect.any(String)] }],
  ['plan.show', () => ({ run: 'read-1' }), { run: { job_id: 'read-1', kind: 'plan' }, set: {}, stages: [] }],
  ['plan.show', () => ({ run: 'nobody' }), unknown],
  ['plan.learning', () => ({ run: 'read-1' }), { rollouts: [], curves: [] }],
  ['plan.learning', () => ({ run: 'nobody' }), unknown],
  ['plan.schema', () => ({}), { type: 'object', properties: { gate: {} } }],
  ['gate.show', () => ({ run: 'read-1' }), unknown],
  ['gate.show', () => ({ run: 'nobody', round: 0 }), { code: 'usage' }],
  [
    'gate.accept',
    (name) => ({ run: name, reason: 'reads well', detach: true }),
    { run: 'NAME', gate: 'NAME/1/gate', state: 'running' },
  ],
  ['gate.accept', (name) => ({ run: name, detach: true }), unknown],
  ['gate.refuse', () => ({ run: 'read-1', detach: true }), unknown],
  ['recipe.schema', () => ({}), { type: 'object', properties: { where: {} } }],
  ['pool', () => ({ min_score: null }), { teams: [], clusters: [], left_out: { no_reward: ['first'] } }],
  ['pool', () => ({ embedding_model: 'nobody' }), unknown],
  ['project.create', () => ({ name: '9 lives' }), { code: 'usage' }],
  ['project.list', () => ({ after: 'nonsense' }), { code: 'usage' }],
  [
    'rollout.start',
    (id) => ({
      runner: 'desk',
      tasks: TASKS,
      samples: 2,
      id: `${id}-r`,
      tags: { phase: 'rl' },
      budget: { tokens: 9 },
      detach: true,
    }),
    { rollout_id: 'NAME-r', state: 'running' },
  ],
  [
    'rollout.start',
    (id) => ({ runner: 'desk', tasks: TASKS, samples: 3, id: `${id}-r`, detach: true }),
    { code: 'conflict' },
  ],
  ['rollout.start', () => ({ runner: 'dsk', tasks: TASKS, samples: 3 }), unknown],
  ['rollout.start', () => ({ runner: 'desk', samples: 0, tasks: TASKS }), { code: 'usage' }],
  ['rollout.start', () => ({ runner: 'desk', samples: 1, replay: { episode_id: 'first' } }), { code: 'usage' }],
  ['rollout.show', (id) => ({ id: `${id}-r` }), { rollout_id: 'NAME-r', outcome: null, attempts: { done: 0 } }],
  ['rollout.show', () => ({ id: 'nobody' }), unknown],
  [
    'rollout.sweep',
    (id) => ({ runner: 'desk', tasks: TASKS, samples: 2, id: `${id}-r`, vary: { agents: [1, 2] }, detach: true }),
    { sweep: 'NAME-r', rollouts: ['NAME-r.1', 'NAME-r.2'], points: null },
  ],
  ['model.info', () => ({ path: '/nowhere/at/all' }), unknown],
  ['model.new', () => ({ dir: '/nowhere/at/all' }), { code: 'usage' }],
  [
    'model.new',
    (name) => ({ dir: `${MODELS}/${name}`, config: { words: ['yes', 'no'], hidden_size: 16 }, heads: 2, layers: 1 }),
    { directory: `${MODELS}/NAME`, vocab_size: 4 },
  ],
  ['model.info', (name) => ({ path: `${MODELS}/${name}` }), { kind: 'model', parameters: 3440 }],
  [
    'model.export',
    (name) => ({ model: `${MODELS}/${name}`, out: `${MODELS}/${name}.hf`, dtype: 'bf16', max_shard: 2048 }),
    { format: 'hf', files: { 'config.json': expect.any(Number) } },
  ],
  [
    'model.merge',
    (name) => ({ model: `${MODELS}/${name}`, adapter: `${MODELS}/none`, out: `${MODELS}/${name}.merged` }),
    { code: expect.any(String) },
  ],
  ['method.list', () => ({ kind: 'loss', limit: 1 }), { total: 9, items: [{ kind: 'loss', over: null }] }],
  ['method.list', () => ({ kind: 'lossy' }), { code: 'usage' }],
  ['method.show', () => ({ method: 'gae' }), { name: 'gae', kind: 'credit', params: { gamma: 1 } }],
  ['method.show', () => ({ method: 'dpo_los' }), { code: 'method_unknown' }],
  ['method.run', () => ({ method: 'normalise_answer', input: { text: ' 7 ' } }), { output: '7' }],
  ['method.run', () => ({ method: 'dpo_loss', input: { beta: 'x' } }), { code: 'method_input' }],
  ['jobs.list', () => ({ kind: 'sft' }), { total: 2, items: [{ job_id: 'b' }, { job_id: 'a', waits_for: null }] }],
  ['jobs.list', () => ({ kind: 'sft', sort: 'job_id', limit: 1 }), { items: [{ job_id: 'a' }] }],
  ['jobs.list', () => ({ kind: 'sfd' }), { total: 0, warnings: ['Nothing has kind = "sfd". Did you mean sft?'] }],
  ['jobs.show', () => ({ job: 'a' }), { job_id: 'a', state: 'requested', spec: { steps: 3 }, result: null }],
  ['jobs.show', () => ({ job: 'nobody' }), unknown],
  ['jobs.metrics', () => ({ job: 'a' }), { items: [] }],
  ['jobs.cancel', (name) => ({ job: name, reason: 'wrong data' }), { cancelled: ['NAME'] }],
  ['jobs.cancel', () => ({ job: 'nobody' }), unknown],
];
