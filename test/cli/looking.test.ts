import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addCommands, COMMANDS } from '../../cli/commands.ts';
import { decodeDraft } from '../../ingest/events/decode.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { chats, lines } from './support/chats.ts';
import { document, type Ended, type Shell, shell, warmShell } from './support/troupe.ts';

const ESCAPE = '\u001b';

describe('commands that record and look', () => {
  let database: TestDatabase;
  let at: Shell;
  let imported: Ended;
  let file: string;
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    file = join(at.folder, 'chats.jsonl');
    writeFileSync(file, lines(chats(16)));
    imported = await at.run(['import', file, '--json']);
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  it('import prints one report of exactly the promised members', () => {
    expect(imported).toMatchObject({ code: 0, err: '' });
    const { events, ...report } = document(imported);
    expect(report).toEqual({
      format: 'openai-chat',
      files: 1,
      skipped_files: [],
      episodes: 8,
      tasks: 2,
      agents: 2,
      calls: 16,
      steps: 16,
      tool_calls: 0,
      feedback: 0,
      errors: [],
      stays_open: [],
    });
    expect(Object.keys(events).sort()).toEqual(['accepted', 'duplicates', 'received', 'rejected']);
    expect(events.received).toBe(events.accepted);
    expect(events.accepted).toBeGreaterThan(32);
  });

  it('import ends with 3 where some input was refused, names file, line and field, and keeps the rest', async () => {
    const partly = join(at.folder, 'partly.jsonl');
    const [good] = chats(1) as [{ request: { metadata: { run_id: string } } }];
    good.request.metadata.run_id = 'kept-beside-a-bad-line';
    writeFileSync(partly, `${JSON.stringify(good)}\n{"request": {"messages": [\n`);
    const ended = await at.run(['import', partly, '--json']);
    expect(ended.code).toBe(3);
    const report = document(ended);
    expect(report.errors).toHaveLength(1);
    expect(Object.keys(report.errors[0]).sort()).toEqual(['code', 'expected', 'field', 'file', 'got', 'line']);
    expect(report.errors[0]).toMatchObject({ file: partly, line: 2, code: 'bad_json' });
    expect(report.events.rejected).toBe(1);
    const kept = document(await at.run(['episodes', 'show', 'kept-beside-a-bad-line', '--json']));
    expect(kept.steps).toHaveLength(1);
    const dead = document(await at.run(['deadletters', '--json']));
    expect(dead.items).toMatchObject([{ code: 'bad_json' }]);
  });

  it('import of a file that is not there, or in a format that is not, starts no database', async () => {
    const alone = shell();
    try {
      for (const [args, why] of [
        [['import', 'nofile.jsonl'], 'There is no file or folder nofile.jsonl.'],
        [['import', file, '--format', 'runes'], 'There is no format "runes"'],
      ] as const) {
        const ended = await alone.run(args);
        expect([ended.code, ended.err]).toEqual([expect.any(Number), expect.stringContaining(why)]);
        expect(ended.code).not.toBe(0);
      }
      expect(existsSync(join(alone.folder, 'home'))).toBe(false);
    } finally {
      await alone.remove();
    }
  });

  it('sql prints columns with types, rows and whether it was cut', async () => {
    const ended = await at.run([
      'sql',
      "select episode_id, steps from traj.episodes where episode_id < 'sum-2' order by 1",
      '--json',
    ]);
    expect(ended).toMatchObject({ code: 0, err: '' });
    expect(document(ended)).toEqual({
      columns: [
        { name: 'episode_id', type: 'text' },
        { name: 'steps', type: expect.stringMatching(/int|bigint/) },
      ],
      rows: [
        ['kept-beside-a-bad-line', 1],
        ['sum-0', 2],
        ['sum-1', 2],
      ],
      truncated: false,
    });
    for (const comment of ['-- the steps\n', '--the steps\n', '-- a = b\n'])
      expect(document(await at.run(['sql', `${comment}select 1 as one`, '--json'])).rows).toEqual([[1]]);
    const cut = document(await at.run(['sql', 'select step_id from traj.steps', '--limit', '3', '--json']));
    expect(cut).toMatchObject({ truncated: true, rows: [{}, {}, {}] });
  });

  it('a failure is one JSON document with a code too, and ends with 1', async () => {
    for (const [args, code] of [
      [['sql', 'select nothing from traj.nowhere', '--json'], 'sql_failed'],
      [['sql', 'drop table facts.steps', '--json'], 'sql_refused'],
      [['episodes', 'show', 'nobody', '--json'], 'not_found'],
    ] as const) {
      const ended = await at.run(args);
      expect(ended.code).toBe(1);
      expect(document(ended).error.code).toBe(code);
      expect(ended.err).toMatch(/^troupe: .+/);
      expect(ended.err).not.toMatch(/\n {4}at /);
    }
  });

  it('checksum prints rows and a SHA-256 for each table, and rebuild keeps them', async () => {
    const before = document(await at.run(['checksum', '--json']));
    expect(Object.keys(before)).toEqual(['tables']);
    expect(before.tables.steps).toEqual({ rows: 17, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
    const rebuilt = await at.run(['rebuild', '--json']);
    expect(rebuilt.code).toBe(0);
    expect(document(rebuilt)).toEqual({
      events: expect.any(Number),
      archived: 0,
      not_judged: [],
      left_out: 0,
      seconds: expect.any(Number),
    });
    expect(document(await at.run(['checksum', '--json']))).toEqual(before);
  });

  it('judge says how many rows it wrote, and nothing new the second time', async () => {
    const first = await at.run(['judge', '--methods', 'agreement_score,grpo_advantage{"scale_std":false}', '--json']);
    expect(first).toMatchObject({ code: 0, err: '' });
    expect(document(first)).toMatchObject({ episodes: 9, methods: ['agreement_score', 'grpo_advantage'] });
    expect(document(await at.run(['sql', 'select distinct method from traj.credits', '--json'])).rows).toEqual([
      ['grpo_advantage'],
    ]);
    const again = document(
      await at.run(['judge', '--methods', 'agreement_score,grpo_advantage{"scale_std":false}', '--json']),
    );
    expect(again).toMatchObject({ episodes: 0, rows: {} });
  });

  it('judge takes a filter as recipes have it and a share of the groups, and says what is wrong with either', async () => {
    const where = (filter: unknown) => ['judge', '--methods', 'rloo_advantage', '--where', JSON.stringify(filter)];
    const [one, part, ...wrong] = await Promise.all([
      at.run([...where({ field: 'episode_id', op: '=', value: 'sum-1' }), '--json']),
      at.run(['judge', '--methods', 'drmas_advantage', '--share', '1/2', '--json']),
      at.run(where({ field: 'agent', op: '=', value: 'solver' })),
      at.run(where({ field: 'epsode_id', op: '=', value: 'sum-1' })),
      at.run(['judge', '--where', 'reward >']),
      at.run(['judge', '--episode', 'nobody']),
      at.run(['judge', '--share', '3/2']),
      at.run(['judge', '--share', '1/2', '--methods', 'diversity_select']),
    ]);
    expect(document(one!).episodes).toBeGreaterThan(0);
    expect(document(one!).episodes).toBeLessThan(9);
    const rest = document(await at.run(['judge', '--methods', 'drmas_advantage', '--share', '2/2', '--json']));
    expect(document(part!).episodes + rest.episodes).toBe(9);
    expect(wrong.map(({ code }) => code)).toEqual([2, 2, 2, 1, 2, 2]);
    expect(wrong.map(({ err }) => err).join('')).toMatch(
      /single steps.*Did you mean episode_id.*expected a value at character 9.*There is no episode "nobody".*1 ≤ k ≤ n.*compares all of them/s,
    );
  });

  it('lineage draws what an episode comes from and led to, and refuses a depth that shows nothing', async () => {
    const drawn = await at.run(['lineage', 'sum-1']);
    expect(drawn.out).toMatch(/^episode sum-1\n├─ comes from\n/);
    const unknown = await at.run(['lineage', 'nobody']);
    expect(unknown).toMatchObject({ code: 1, out: '' });
    expect(unknown.err).toContain('There is no episode, step, dataset, row or checkpoint "nobody".');
    expect(await at.run(['lineage', 'sum-1', '--depth', '0'])).toMatchObject({ code: 2 });
  });

  it('the other commands that look print one document each', async () => {
    const documents = await Promise.all(
      [
        ['episodes'],
        ['episodes', 'show', 'sum-1'],
        ['lineage', 'sum-1'],
        ['reconcile'],
        ['checkpoints'],
        ['jobs'],
        ['dataset', 'list'],
        ['recipe', 'schema'],
        ['filter', 'reward >= 1 and role = coder'],
        ['doctor'],
        ['export'],
      ].map(
        async (args) =>
          [args.slice(0, args[1] === 'show' ? 2 : 1).join(' '), await at.run([...args, '--json'])] as const,
      ),
    );
    const of = Object.fromEntries(documents.map(([name, ended]) => [name, document(ended)]));
    for (const [name, ended] of documents) expect([name, ended.code]).toEqual([name, 0]);
    expect(of.episodes!.items).toHaveLength(9);
    expect(of['episodes show']!.steps.map((step: { text: string }) => step.text)).toEqual(['8', 'looks right']);
    expect(of.reconcile).toMatchObject({ ok: true });
    expect(of.jobs).toEqual({ items: [], total: 0, next: null });
    expect(of.checkpoints).toEqual({ items: [], total: 0, next: null });
    expect(of.dataset).toEqual({ items: [], total: 0, next: null, others: [] });
    expect(of.filter).toEqual({
      filter: {
        and: [
          { field: 'reward', op: '>=', value: 1 },
          { field: 'role', op: '=', value: 'coder' },
        ],
      },
      text: "reward >= 1 and role = 'coder'",
      sql: expect.stringContaining('e.reward >= 1'),
    });
    expect(of.recipe.properties.name).toBeDefined();
    expect(of.doctor.settings.find((s: { setting: string }) => s.setting === 'database_url').value).toMatch(/\*\*\*@/);
    expect(of.export.length).toBe(of.reconcile.log.events);
  });

  it('export writes lines that another project imports to the same tables', async () => {
    const out = join(at.folder, 'events.jsonl');
    const ended = await at.run(['export', '--out', out, '--json']);
    expect(document(ended)).toEqual({ lines: expect.any(Number), left_out_calls: 0 });
    const other = await freshDatabase();
    try {
      const there = await at.run(['import', out, '--json', '--database-url', other.url]);
      expect(document(there)).toMatchObject({ format: 'troupe-events', events: { accepted: document(ended).lines } });
      // What judgements say is not in the log, only that they were asked for.
      expect(await at.run(['rebuild', '--quiet', '--database-url', other.url])).toMatchObject({ code: 0, err: '' });
      const sums = await Promise.all(
        [[], ['--database-url', other.url]].map((more) => at.run(['checksum', '--json', ...more])),
      );
      expect(document(sums[1]!)).toEqual(document(sums[0]!));
    } finally {
      await other.close();
    }
    expect(readFileSync(out, 'utf8').trim().split('\n')).toHaveLength(document(ended).lines);
  });

  it('episodes says how many events are in the log and not in the tables yet', async () => {
    const other = await freshDatabase();
    try {
      const draft = decodeDraft({
        name: 'episode.started',
        source: '/t',
        id: '1',
        time: null,
        data: { episode_id: 'waits' },
      });
      await postgresLog(other.db).append([draft.event!]);
      const ended = await at.run(['episodes', '--database-url', other.url]);
      expect(ended).toMatchObject({ code: 0, out: '' });
      expect(ended.err).toContain('In the log and not in the tables yet: 1 event.');
      const json = await at.run(['episodes', '--json', '--database-url', other.url]);
      expect(document(json)).toEqual({ items: [], total: 0, next: null, waiting_events: 1 });
    } finally {
      await other.close();
    }
  });

  it('episodes and show say what is odd about an episode, and not that it holds text alone', async () => {
    const other = await freshDatabase();
    const run = (...args: string[]) => at.run([...args, '--database-url', other.url]);
    try {
      const started = (episode_id: string, flags: string[]) =>
        decodeDraft({ name: 'episode.started', source: '/t', id: episode_id, time: null, data: { episode_id, flags } })
          .event!;
      await postgresLog(other.db).append([
        started('plain', ['no_token_ids']),
        started('odd', ['no_token_ids', 'conflicting_span']),
      ]);
      await projectAll(other.db);
      const [heads, ...rows] = (await run('episodes', '--sort', 'episode_id')).out.trim().split('\n');
      expect(heads).toMatch(/ flags$/);
      expect(rows.map((row) => / conflicting_span$/.test(row))).toEqual([true, false]);
      expect(document(await run('episodes', '--sort', '-episode_id', '--json')).items).toMatchObject([
        { episode_id: 'plain', flags: ['no_token_ids'] },
        { episode_id: 'odd', flags: ['no_token_ids', 'conflicting_span'] },
      ]);
      expect((await run('episodes', 'show', 'odd')).out).toContain('flagged conflicting_span');
      expect((await run('episodes', 'show', 'plain')).out).not.toContain('flagged');
    } finally {
      await other.close();
    }
  });

  it('import says that a folder holds no file', async () => {
    const folder = join(at.folder, 'nothing');
    mkdirSync(folder);
    const { code, err } = await at.run(['import', folder]);
    expect([code, err]).toEqual([0, expect.stringContaining('There was no file to import.')]);
  });

  it('episodes says that there are more than it lists', async () => {
    const some = await at.run(['episodes', '--limit', '3']);
    expect(some.out.trim().split('\n')).toHaveLength(4);
    expect(some.err).toMatch(/^3 of \d+ episodes are listed; --limit N lists more, --after \S+ those that follow\.\n$/);
    const { items, total, next } = document(await at.run(['episodes', '--limit', '3', '--json']));
    const rest = document(await at.run(['episodes', '--after', next, '--json']));
    expect([items.length + rest.items.length, rest.next]).toEqual([total, null]);
    const all = await at.run(['episodes', '--limit', '500']);
    expect(all.err).toBe('');
  });

  it.each([
    [['dataset', 'freeze', 'none.yaml'], 'The recipe none.yaml cannot be read: there is no such file.'],
    [['plan', 'check', 'none.yaml'], 'The plan none.yaml cannot be read: there is no such file.'],
    [['plan', 'check', '/'], 'The plan / cannot be read: it is a folder.'],
    [
      ['schedule', 'add', 'x', '--every', '1h', '--job', 'none.yaml'],
      'The job none.yaml cannot be read: there is no such file.',
    ],
  ])('%j names the file that cannot be read, and why', async (args, why) => {
    const ended = await at.run(args);
    expect([ended.code, ended.err]).toEqual([1, `troupe: ${why}\n`]);
  });

  it('episodes lists those that a filter chooses, and says which value nothing has', async () => {
    const ids = async (...more: string[]) => document(await at.run(['episodes', '--json', ...more])).items;
    const all = (await ids()) as { episode_id: string; steps: number }[];
    const short = (await ids('--where', 'count(steps) < 2')) as typeof all;
    expect(short.map(({ episode_id }) => episode_id)).toContain('kept-beside-a-bad-line');
    expect(short.length).toBeLessThan(all.length);
    expect(short).toEqual(all.filter(({ steps }) => steps < 2));
    const none = await at.run(['episodes', '--where', 'task_id = no-such']);
    expect([none.err, none.out]).toEqual([expect.stringMatching(/no-such/), '']);
    const wrong = await at.run(['episodes', '--where', 'role = coder']);
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('filter chooses whole episodes')]);
  });

  it('episodes says why it lists none: no such task, all pruned, or nothing recorded', async () => {
    const other = await freshDatabase();
    const episodesOutput = async (...more: string[]) => {
      const { out, err } = await at.run(['episodes', ...more, '--database-url', other.url]);
      return `${out}${err}`;
    };
    try {
      expect(await episodesOutput()).toBe('There is no such episode; `troupe import FILE` records some.\n');
      expect(await episodesOutput('--task', 'none')).toContain('Nothing has task_id = "none".');
      const about = { source: '/t', time: null };
      await postgresLog(other.db).append([
        decodeDraft({ ...about, name: 'episode.started', id: '1', data: { episode_id: 'old' } }).event!,
        decodeDraft({ ...about, name: 'episode.finished', id: '2', data: { episode_id: 'old', outcome: 'unknown' } })
          .event!,
      ]);
      await projectAll(other.db);
      const pruned = await at.run(['prune', '--older-than', '0d', '--yes', '--database-url', other.url]);
      expect([pruned.code, pruned.err]).toEqual([0, expect.anything()]);
      expect(await episodesOutput()).toBe(
        'No episodes in the tables; 1 were pruned, and traj.pruned says where they are.\n',
      );
    } finally {
      await other.close();
    }
  });

  it('show reads as a conversation: the question, then who answered what', async () => {
    const { code, out } = await at.run(['episodes', 'show', 'sum-1']);
    expect(code).toBe(0);
    const places = ['Episode sum-1', 'user', 'what is 1 plus 7', 'solver', '\n  8\n', 'critic', 'looks right'].map(
      (text) => out.indexOf(text),
    );
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places).not.toContain(-1);
    expect(out.match(/what is 1 plus 7/g)).toHaveLength(1);
  });

  it('methods are listed, shown and run without a database', async () => {
    const list = document(await at.run(['method', 'list', '--json', '--database-url', 'postgres://localhost:1/none']));
    expect(list.items.length).toBeGreaterThan(90);
    expect(list.items.find((m: { name: string }) => m.name === 'grpo_advantage')).toMatchObject({ kind: 'credit' });
    expect(document(await at.run(['method', 'show', 'grpo_advantage', '--json']))).toMatchObject({
      name: 'grpo_advantage',
      params: { scale_std: true },
    });
    const ran = await at.run(
      ['method', 'run', 'grpo_advantage'],
      '{"group":["q","q"],"reward":[1,0],"scale_std":false}',
    );
    expect(ran.code).toBe(0);
    expect(JSON.stringify(document(ran))).toContain('0.5,-0.5');
    const unknown = await at.run(['method', 'run', 'grpo_advantag', '--json'], '{}');
    expect(unknown.code).toBe(2);
    expect(document(unknown).error.code).toBe('method_unknown');
    const empty = await at.run(['method', 'run', 'grpo_advantage'], '');
    expect([empty.code, empty.err]).toEqual([1, expect.stringMatching(/The input is empty.*\n.*method show NAME/)]);
    const broken = await at.run(['method', 'run', 'grpo_advantage', '--json'], 'no json');
    expect(broken.code).toBe(1);
    expect(document(broken).error.code).toBe('method_input');
  });

  it('a command, option or value that does not exist ends with 2 and a hint', async () => {
    for (const [args, hint] of [
      [['improt', 'x'], /Did you mean import\?/],
      [['method', 'lst'], /Did you mean list\?/],
      [['episodes', '--limt', '3'], /Did you mean --limit\?/],
      [['episodes', '--limit', 'three'], /integer|whole number/],
      [['train', 'sft'], /required option '--model/],
      [['release', 'team'], /POLICY=CHECKPOINT/],
      [['run', 'everything'], /ingest, project, judge/],
      [['import', file, '--format', 'telepathy'], /openai-chat/],
    ] as const) {
      const plain = await at.run(args);
      expect([args, plain.code, plain.out]).toEqual([args, 2, '']);
      expect(plain.err).toMatch(hint);
      expect(plain.err).not.toMatch(/\n {4}at /);
    }
    const asJson = await at.run(['episodes', '--limit', 'three', '--json']);
    expect(document(asJson).error.code).toBe('usage');
  });

  it('what a pipe gets has no colours, nor with NO_COLOR; FORCE_COLOR asks for them', async () => {
    const piped = await at.run(['episodes']);
    expect(piped.out).toContain('sum-1');
    expect(piped.out).not.toContain(ESCAPE);
    const coloured = warmShell({ DATABASE_URL: database.url, FORCE_COLOR: '1' });
    const plain = warmShell({ DATABASE_URL: database.url, FORCE_COLOR: '1', NO_COLOR: '1', CI: '1' });
    const [forced, refused] = await Promise.all([coloured.run(['episodes']), plain.run(['episodes'])]);
    expect(forced.out).toContain(ESCAPE);
    expect(refused.out).not.toContain(ESCAPE);
    await coloured.remove();
    await plain.remove();
  });

  it('starts from its sources as it does as shipped', async () => {
    const loader = createRequire(import.meta.url).resolve('tsx');
    const program = new URL('../../cli.ts', import.meta.url).pathname;
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--import',
      loader,
      program,
      'method',
      'list',
      '--json',
    ]);
    expect(stdout).toBe((await at.run(['method', 'list', '--json'])).out);
  });

  it('help begins with examples', async () => {
    const help = await at.run(['--help']);
    expect(help.code).toBe(0);
    expect(help.out).toMatch(/^Examples:\n {2}troupe demo/);
  });

  it('each command has a file of its name, and only the one that is asked for is loaded', async () => {
    for (const [name, load] of Object.entries(COMMANDS)) {
      const program = new Command('troupe');
      (await load()).addTo(program);
      expect(program.commands.map((command) => command.name())).toEqual([name]);
    }
    const added = async (...args: string[]) => {
      const program = new Command('troupe');
      await addCommands(program, args);
      return program.commands.map((command) => command.name());
    };
    expect(await added('--home', 'sql', 'judge', '--all')).toEqual(['judge']);
    expect(await added('--json', 'method', 'list')).toEqual(['method']);
    expect(await added('help', 'judge')).toEqual(['judge']);
    const all = Object.keys(COMMANDS).sort();
    expect((await added('--help')).sort()).toEqual(all);
    expect((await added('jugde')).sort()).toEqual(all);
  });

  /** Commands that the page of their group does not tell of. */
  const OWN_PAGE = [
    'key',
    'deadletters',
    'dataset',
    'plan',
    'gate',
    'log',
    'prune',
    'erase',
    'compare',
    'teams',
    'reset',
  ].map((name) => `troupe ${name}`);

  it('every page of help shows an example of its command, and ends with the page that documents it', async () => {
    const pages = (command: Command, path: string): [string, Command][] => [
      [path, command],
      ...command.commands.flatMap((inner) => pages(inner, `${path} ${inner.name()}`)),
    ];
    const all: [string, Command][] = [];
    for (const name of Object.keys(COMMANDS)) {
      const program = new Command('troupe');
      await addCommands(program, [name]);
      all.push(...program.commands.flatMap((command) => pages(command, `troupe ${command.name()}`)));
    }
    expect(all.length).toBeGreaterThan(60);
    for (const [path, command] of all) {
      let text = '';
      command.configureOutput({ writeOut: (part) => (text += part) }).outputHelp();
      expect([path, /Examples?[^\n]*:\n/.test(text)]).toEqual([path, true]);
      if (!/Example recipe/.test(text)) expect(text).toMatch(new RegExp(`\\n  .*${path}`));
      const [, page] = /Documentation: (\S+)\n$/.exec(text) ?? [];
      expect([path, page, existsSync(new URL(`../../${page}`, import.meta.url))]).toEqual([path, page, true]);
      if (OWN_PAGE.includes(path))
        expect([path, readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8').includes(path)]).toEqual([
          path,
          true,
        ]);
    }
  });

  it('a wrong option is answered with the help of its command', async () => {
    expect((await at.run(['key', 'list', '--al'])).err).toContain('(troupe key list --help shows');
  });

  it('a project that does not exist is refused with the nearest name, when it is read too, and created by its command', async () => {
    const server = new URL(database.url);
    const project = `made-${server.pathname.slice(1)}`.slice(0, 48);
    const read = ['episodes', '--json', '--project'];
    const refused = await at.run([...read, project]);
    expect([refused.code, document(refused).error.code]).toEqual([1, 'not_found']);
    expect(refused.err).toContain(`Create it with: troupe project create ${project}`);
    const created = await at.run(['project', 'create', project, '--json']);
    try {
      expect(document(created)).toEqual({ project, created: true });
      expect(document(await at.run(['project', 'create', project, '--json']))).toEqual({ project, created: false });
      expect(document(await at.run(['project', 'list', '--limit', '500', '--json'])).items).toContainEqual({ project });
      expect(document(await at.run([...read, project]))).toEqual({
        items: [],
        total: 0,
        next: null,
        waiting_events: 0,
      });
      const misspelt = await at.run([...read, `${project.slice(0, -1)}_`]);
      expect(misspelt.err).toContain(`Did you mean ${project}?`);
    } finally {
      await database.db.query(`drop database if exists "${project}"`);
    }
  });
});
