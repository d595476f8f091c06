/** Images and files in messages: stored once as bytes, named in the tables, and whole to whoever needs them. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asSent, decodeDraft } from '../../ingest/events/decode.ts';
import type { Event } from '../../ingest/events/events.ts';
import { canonicalJson, sha256 } from '../../ingest/events/json.ts';
import { exportEvents } from '../../ingest/files/export.ts';
import { cutOtlp } from '../../ingest/formats/traces/live-traces.ts';
import { writeRecord } from '../../ingest/log/kafka-record.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { splitEvent } from '../../ingest/log/split.ts';
import { decodeOtlp } from '../../ingest/traces/otlp/decode.ts';
import { freeze } from '../../store/datasets/freeze.ts';
import { openDataset } from '../../store/datasets/read.ts';
import { judgeAgain } from '../../store/evaluate/judging/judge.ts';
import { readEpisodePage } from '../../store/explore/episodes/read-page.ts';
import { erase } from '../../store/keep/erase.ts';
import { bringIn } from '../../store/log/follow.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { fileTarget, writeBackup } from '../../store/server/backup/backup.ts';
import { fileSource, restoreBackup } from '../../store/server/backup/restore.ts';
import { openHome } from '../../store/server/home.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import '../support/replay.ts';
import { chat, message, request, text } from '../ingest/support/spans.ts';
import { anEpisode, at, event } from './support/events.ts';
import { memoryTopic } from './support/memory-topic.ts';
import { aProject } from './support/pruning.ts';

type Shape = (base64: string) => object;

/** Every way in which an interface writes an image or a file. */
const SHAPES: Readonly<Record<string, Shape>> = {
  chat_image: (data) => ({ type: 'image_url', image_url: { url: `data:image/png;base64,${data}`, detail: 'low' } }),
  chat_audio: (data) => ({ type: 'input_audio', input_audio: { data, format: 'wav' } }),
  chat_file: (data) => ({
    type: 'file',
    file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${data}` },
  }),
  chat_file_bare: (data) => ({ type: 'file', file: { filename: 'a.bin', file_data: data } }),
  messages_image: (data) => ({ type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data } }),
  messages_document: (data) => ({ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data } }),
  messages_result: (data) => ({
    type: 'tool_result',
    content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }],
  }),
  responses_image: (data) => ({ type: 'input_image', image_url: `data:image/webp;base64,${data}` }),
  responses_file: (data) => ({
    type: 'input_file',
    filename: 'a.pdf',
    file_data: `data:application/pdf;base64,${data}`,
  }),
  responses_made: (data) => ({ type: 'image_generation_call', result: data, output_format: 'webp' }),
  gemini: (data) => ({ type: 'inline_data', inline_data: { mime_type: 'image/png', data } }),
  gemini_camel: (data) => ({ type: 'inlineData', inlineData: { mimeType: 'image/png', data } }),
  genai: (content) => ({ type: 'blob', modality: 'image', mime_type: 'image/png', content }),
  mcp: (data) => ({ type: 'image', data, mimeType: 'image/png' }),
  parameters: (data) => ({ type: 'image_url', image_url: { url: `data:text/csv;charset=utf-8;base64,${data}` } }),
};

const TYPES: Readonly<Record<string, string>> = {
  chat_audio: 'audio/wav',
  chat_file: 'application/pdf',
  chat_file_bare: 'application/octet-stream',
  messages_image: 'image/jpeg',
  messages_document: 'application/pdf',
  responses_image: 'image/webp',
  responses_file: 'application/pdf',
  responses_made: 'image/webp',
  parameters: 'text/csv',
};

const image = (size = 3000): Buffer => randomBytes(size);
const picture = (data: Buffer): object => SHAPES.chat_image!(data.toString('base64'));

/** A call that reads a message with these parts. */
const call = (episode: string, n: number, parts: readonly object[]): Event[] => [
  event(
    'generation.requested',
    { episode_id: episode, call_id: `c${n}`, agent_id: 'solver', input: [{ role: 'user', content: parts as never }] },
    { id: `${episode}-r${n}`, time: at(2 * n) },
  ),
  event(
    'generation.completed',
    { episode_id: episode, call_id: `c${n}`, agent_id: 'solver', choices: [{ index: 0, content: 'I see.' }] },
    { id: `${episode}-d${n}`, time: at(2 * n + 1) },
  ),
];

describe('Images and files', () => {
  let fresh: TestDatabase;
  const record = async (events: readonly Event[]) => {
    const answers = await postgresLog(fresh.db).append(events);
    await projectAll(fresh.db);
    return answers;
  };
  const rows = async (sql: string, params: readonly unknown[] = []) =>
    (await fresh.db.query<Record<string, unknown>>(sql, params)).rows;
  const jsonOf = async (id: string) =>
    (await rows('select data::text as json from troupe.events where id = $1', [id]))[0]!.json;
  beforeAll(async () => {
    fresh = await freshDatabase();
  });
  afterAll(() => fresh.close());

  const bytes = fc.uint8Array({ minLength: 900, maxLength: 1300 }).map((one) => Buffer.from(one).toString('base64'));
  const written = fc.oneof(
    bytes,
    bytes.map((one) => one.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')),
    bytes.map((one) => one.replace(/.{76}/g, '$&\r\n')),
    bytes.map((one) => `${one.slice(0, -1)}!`),
    fc.string({ unit: 'binary', maxLength: 2000 }),
  );
  const part = fc.oneof(
    fc.tuple(fc.constantFrom(...Object.values(SHAPES)), written).map(([shape, data]) => shape(data)),
    written.map((content) => ({ type: 'text', content })),
    fc.record({ type: fc.constantFrom('x', 'blob'), data: written, url: written, content: written }),
  );

  it('P1: come back to the letter, in any mix of parts, from the log and after a rebuild', async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 4 }), fc.array(part, { maxLength: 2 }), async (parts, more) => {
        const id = `p${run++}`;
        const about = { episode_id: `property ${id}` };
        const events = [
          ...call(about.episode_id, run, parts),
          event(
            'span.recorded',
            {
              ...about,
              format: 'unknown',
              item: { parts: JSON.stringify(parts), twice: JSON.stringify([JSON.stringify(more)]) },
            } as never,
            { id: `${id}-s` },
          ),
          event(
            'message.sent',
            { ...about, message_id: 'm', content: parts as never, unmapped: { more } },
            { id: `${id}-m` },
          ),
          event('tool.called', { ...about, tool_call_id: 't', name: 'look' }, { id: `${id}-t` }),
          event('tool.returned', { ...about, tool_call_id: 't', status: 'ok', output: more }, { id: `${id}-o` }),
          event('environment.observed', { ...about, kind: 'screen', content: parts as never }, { id: `${id}-e` }),
          event(
            'generation.completed',
            { ...about, call_id: 'made', choices: [{ index: 0, content: parts as never }] },
            { id: `${id}-g` },
          ),
        ];
        expect(new Set(await postgresLog(fresh.db).append(events))).toEqual(new Set(['accepted']));
        const stored = await rows('select data::text as json from troupe.events where key = $1 order by position', [
          `e/${about.episode_id}`,
        ]);
        expect(stored.map(({ json }) => json)).toEqual(events.map(({ json }) => json));
        expect(new Set(await postgresLog(fresh.db).append(events))).toEqual(new Set(['duplicate']));
      }),
      { numRuns: 40 },
    );
    await projectAll(fresh.db);
    const before = await checksum(fresh.db);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect(await checksum(fresh.db)).toEqual(before);
    expect(await reconcile(fresh.db)).toMatchObject({ ok: true, orphans: {} });
    const broken = await rows(
      `select artifact_id from traj.artifacts a where flags is null and episode_id like 'property%'
         and encode(sha256((select bytes from troupe.blobs where encode(sha256, 'hex') = artifact_id)), 'hex') <> artifact_id`,
    );
    expect(broken).toEqual([]);
  });

  it.each(Object.entries(SHAPES))('of the shape %s are artifacts with a media type', async (name, shape) => {
    const data = image();
    const episode = `shape ${name}`;
    const events = call(episode, 0, [{ type: 'text', content: 'Look.' }, shape(data.toString('base64'))]);
    await record(events);
    expect(
      await rows('select artifact_id, media_type, size, flags from traj.artifacts where episode_id = $1', [episode]),
    ).toEqual([{ artifact_id: sha256(data), media_type: TYPES[name] ?? 'image/png', size: 3000, flags: null }]);
    const [message] = await rows(
      `select m.text, m.content, m.artifacts from traj.artifacts a
       join traj.messages m on m.episode_id = a.episode_id and a.artifact_id = any(m.artifacts) where a.episode_id = $1`,
      [episode],
    );
    expect(message).toMatchObject({ text: 'Look.', artifacts: [sha256(data)] });
    expect(JSON.stringify(message!.content).length).toBeLessThan(400);
    const [stored] = await rows(
      'select max(octet_length(data::text)) as most from troupe.stored_events where key = $1',
      [`e/${episode}`],
    );
    expect(stored!.most).toBeLessThan(400);
    expect(await jsonOf(events[0]!.id)).toBe(events[0]!.json);
  });

  it('inside of an attribute of a span are bytes too, between the pieces of its text', () => {
    const [one, other] = [image(), image(5000)];
    const value = `${'x'.repeat(5000)}${JSON.stringify([SHAPES.genai!(one.toString('base64')), picture(other)])}${'y'.repeat(5000)}`;
    const { bodies } = splitEvent(
      event('span.recorded', { episode_id: 'e', format: 'unknown', item: { value } } as never),
    );
    const files = bodies.filter(({ base64 }) => base64);
    expect(files.map(({ body, base64 }) => Buffer.from(body.slice(base64!.at), 'base64'))).toEqual([one, other]);
    expect(files.map(({ base64 }) => base64!.media_type)).toEqual(['image/png', 'image/png']);
    expect(bodies.map(({ body }) => body).join('')).toBe(value);
    for (const { body, base64 } of bodies)
      expect((base64 ? body.slice(0, base64.at) : body).length).toBeLessThanOrEqual(2048);
  });

  it('of 1024 bytes or less stay in their message', async () => {
    await record([...call('small', 0, [picture(image(1024))]), ...call('large', 0, [picture(image(1025))])]);
    expect(
      await rows(`select episode_id from traj.artifacts where role = 'image' and episode_id in ('small', 'large')`),
    ).toEqual([{ episode_id: 'large' }]);
    const [{ content }] = (await rows(`select content from traj.messages where episode_id = 'small'`)) as [
      { content: { image_url: { url: string } }[] },
    ];
    expect(content[0]!.image_url.url).toMatch(/^data:image\/png;base64,/);
  });

  it('lie once, however many episodes show them', async () => {
    const data = image();
    for (let n = 0; n < 3; n++)
      await record([...call(`many ${n}`, 0, [picture(data)]), ...call(`many ${n}`, 1, [picture(data), { type: 'x' }])]);
    expect(
      await rows(`select count(*)::integer as n from troupe.blobs where encode(sha256, 'hex') = $1`, [sha256(data)]),
    ).toEqual([{ n: 1 }]);
    expect(
      await rows('select count(*)::integer as n from traj.artifacts where artifact_id = $1', [sha256(data)]),
    ).toEqual([{ n: 3 }]);
  });

  it.each([
    ['base64url', (one: string) => one.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')],
    ['with line breaks', (one: string) => one.replace(/.{76}/g, '$&\n')],
    ['with letters that are none', (one: string) => `${one.slice(0, 2000)}*${one.slice(2000)}`],
  ])('in base64 that would not come back, %s, stay as they came and are flagged', async (name, change) => {
    const written = change(Buffer.alloc(3001, '>?').toString('base64'));
    const events = call(`odd ${name}`, 0, [SHAPES.gemini!(written)]);
    await record(events);
    expect(
      await rows('select artifact_id, media_type, flags from traj.artifacts where episode_id = $1', [`odd ${name}`]),
    ).toEqual([{ artifact_id: null, media_type: 'image/png', flags: ['unreadable_blob'] }]);
    const [{ content }] = (await rows('select content from traj.messages where episode_id = $1', [`odd ${name}`])) as [
      { content: unknown },
    ];
    expect(content).toEqual([SHAPES.gemini!(written)]);
    expect(await jsonOf(events[0]!.id)).toBe(events[0]!.json);
  });

  it('are named in the tables of steps, messages, results and observations, and whole where the judge reads them', async () => {
    const data = image();
    const about = { episode_id: 'everywhere' };
    const parts = [picture(data)];
    await record([
      event(
        'generation.completed',
        { ...about, call_id: 'c', choices: [{ index: 0, content: parts as never }] },
        { id: 'w1' },
      ),
      event('message.sent', { ...about, message_id: 'm', content: parts as never }, { id: 'w2' }),
      event('tool.called', { ...about, tool_call_id: 't', name: 'look' }, { id: 'w3' }),
      event('tool.returned', { ...about, tool_call_id: 't', status: 'ok', output: parts }, { id: 'w4' }),
      event(
        'environment.observed',
        { ...about, kind: 'screen', content: parts as never, state: { parts } },
        { id: 'w5' },
      ),
    ]);
    const named = [
      {
        type: 'image_url',
        image_url: { detail: 'low', url: { artifact_id: sha256(data), media_type: 'image/png', size: 3000 } },
      },
    ];
    for (const [table, column, shown] of [
      ['steps', 'content', named],
      ['messages', 'content', named],
      ['tool_calls', 'output', named],
      ['observations', 'content', named],
      ['observations', 'state', { parts: named }],
    ] as const) {
      expect([
        table,
        await rows(`select ${column} as shown from traj.${table} where episode_id = 'everywhere'`),
      ]).toEqual([table, [{ shown }]]);
      const [stored] = await rows(
        `select octet_length(${column}::text) as n from facts.${table} where episode_id = 'everywhere'`,
      );
      expect(stored!.n).toBeLessThan(200);
    }
  });

  it('are named on the page of an episode', async () => {
    const data = image(200_000);
    await record(call('page', 0, [{ type: 'text', content: 'Look.' }, picture(data)]));
    const page = JSON.stringify(await fresh.db.transaction((tx) => readEpisodePage(tx, 'page')));
    expect(page).toContain(sha256(data));
    expect(page.length).toBeLessThan(10_000);
  });

  it('are whole in an export, which imports as a duplicate', async () => {
    const events = call('exported', 0, [picture(image())]);
    await record(events);
    const stored = (await rows(
      `select name, type_version, source, id, time, data from troupe.events where key = 'e/exported' order by position`,
    )) as never[];
    const lines: string[] = [];
    for await (const line of exportEvents(stored)) lines.push(String(line));
    const written = lines
      .join('')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).data);
    expect(written).toEqual(events.map(({ data }) => asSent(data)));
  });

  it('are whole in a dataset, what was asked and what was answered', async () => {
    const [asked, answered] = [image(), image()];
    const folder = mkdtempSync(join(tmpdir(), 'troupe-artifacts-'));
    try {
      const [requested] = call('dataset', 0, [picture(asked)]);
      await record([
        requested!,
        event(
          'generation.completed',
          {
            episode_id: 'dataset',
            call_id: 'c0',
            agent_id: 'solver',
            choices: [{ index: 0, content: [picture(answered)] as never }],
          },
          { id: 'dataset-answer' },
        ),
        event('episode.finished', { episode_id: 'dataset', outcome: 'success' }, { id: 'dataset-end' }),
      ]);
      const recipe = { name: 'seen', unit: 'step', where: { field: 'episode_id', op: '=', value: 'dataset' } };
      const frozen = await freeze(fresh.db, recipe, { directory: folder, codeVersion: '0' });
      const text = [...(await openDataset(frozen.directory)).rows()].map((row) => JSON.stringify(row)).join('');
      expect(text).toContain(asked.toString('base64'));
      expect(text).toContain(answered.toString('base64'));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('whose bytes are missing are an error that names them, not a message without its image', async () => {
    const data = image();
    const events = call('missing', 0, [picture(data)]);
    await record(events);
    const gone = (read: string) =>
      fresh.db.transaction(async (tx) => {
        await tx.query(`delete from troupe.blobs where encode(sha256, 'hex') = $1`, [sha256(data)]);
        await tx.query(read);
      });
    for (const read of [
      `select data from troupe.events where key = 'e/missing'`,
      `select content from traj.messages where episode_id = 'missing'`,
    ])
      await expect(gone(read)).rejects.toThrow(`The bytes of the artifact ${sha256(data)} are not in troupe.blobs.`);
    expect(await jsonOf(events[0]!.id)).toBe(events[0]!.json);
    await fresh.db
      .transaction(async (tx) => {
        await tx.query(`delete from troupe.blobs where encode(sha256, 'hex') = $1`, [sha256(data)]);
        expect(
          (await reconcile({ ...fresh.db, transaction: (work: (tx: unknown) => unknown) => work(tx) } as never))
            .orphans,
        ).toMatchObject({
          'bodies without their bytes': 1,
        });
        throw new Error('undone');
      })
      .catch((error: Error) => expect(error.message).toBe('undone'));
  });
});

describe('Erasing an episode', () => {
  it('removes the images that nothing else names, and leaves the others', async () => {
    const { db, close } = await freshDatabase();
    try {
      const [own, shared] = [image(), image()];
      const log = postgresLog(db);
      await log.append([
        ...call('ann', 0, [picture(own), picture(shared)]),
        event(
          'message.sent',
          { episode_id: 'ann', message_id: 'm', content: [picture(own)] as never },
          { id: 'ann-m' },
        ),
        ...call('bob', 0, [picture(shared)]),
      ]);
      await projectAll(db);
      const done = await erase(
        db,
        { episode: 'ann' },
        {
          log,
          ...{
            now: () => new Date(),
            judge: judgeAgain,
            removeBody: async () => false,
            removeDataset: async () => false,
          },
        },
      );
      expect(done.bodies).toBe(1);
      const { rows } = await db.query<{ name: string }>(`select encode(sha256, 'hex') as name from troupe.blobs`);
      expect(rows).toEqual([{ name: sha256(shared) }]);
      const shown = await db.query('select episode_id, artifact_id from traj.artifacts');
      expect(shown.rows).toEqual([{ episode_id: 'bob', artifact_id: sha256(shared) }]);
      await projectAll(db);
      expect(await reconcile(db)).toMatchObject({ orphans: {} });
      const before = await checksum(db);
      await rebuild(db, { judge: judgeAgain });
      expect(await checksum(db)).toEqual(before);
    } finally {
      await close();
    }
  });

  it('and recording the same image elsewhere at that moment loses neither', async () => {
    const { db, close } = await freshDatabase({ max: 8 });
    try {
      const log = postgresLog(db);
      for (let n = 0; n < 8; n++) {
        const data = image();
        await log.append(call(`old ${n}`, 0, [picture(data)]));
        await projectAll(db);
        const erasing = erase(
          db,
          { episode: `old ${n}` },
          {
            log,
            ...{
              now: () => new Date(),
              judge: judgeAgain,
              removeBody: async () => false,
              removeDataset: async () => false,
            },
          },
        );
        const events = call(`new ${n}`, 0, [picture(data)]);
        await Promise.all([erasing, log.append(events)]);
        const { rows } = await db.query<{ json: string }>(
          'select data::text as json from troupe.events where id = $1',
          [events[0]!.id],
        );
        expect(rows).toEqual([{ json: events[0]!.json }]);
      }
      expect((await reconcile(db)).orphans).toEqual({});
    } finally {
      await close();
    }
  });
});

describe('Pruning', () => {
  it('takes images into the archive, and a restore brings them back', async () => {
    const project = await aProject();
    try {
      const { db } = project;
      const data = image();
      const about = { episode_id: 'a' };
      await project.record([
        ...anEpisode('a'),
        event(
          'message.sent',
          { ...about, message_id: 'm9', content: [picture(data)] as never },
          { id: 'a-picture', time: at(4) },
        ),
      ]);
      const [before, sums] = [await project.rows(), await checksum(db)];
      expect(await project.prune()).toMatchObject({ episodes: 1 });
      expect((await db.query('select 1 from troupe.blobs')).rows).toEqual([]);
      expect(await reconcile(db)).toMatchObject({ ok: true, orphans: {} });
      await project.restore();
      expect(await project.rows()).toEqual(before);
      expect(await checksum(db)).toEqual(sums);
      expect((await db.query('select artifact_id from traj.artifacts')).rows).toEqual([{ artifact_id: sha256(data) }]);
    } finally {
      await project.close();
    }
  });
});

describe('A backup', () => {
  it('holds the images, and a restore has the same tables and the same bytes', async () => {
    const [fresh, other] = [await freshDatabase(), await freshDatabase()];
    const folder = mkdtempSync(join(tmpdir(), 'troupe-artifacts-'));
    try {
      const data = image();
      const events = call('kept', 0, [picture(data)]);
      await postgresLog(fresh.db).append(events);
      await projectAll(fresh.db);
      const sums = await checksum(fresh.db);
      const file = join(folder, 'backup.tar.gz');
      const about = { project: 'troupe', version: '0', now: new Date() };
      await writeBackup(fresh.db, fileTarget(file), { home: openHome(join(folder, 'home')), ...about });
      await restoreBackup(other.db, fileSource(file), { home: openHome(join(folder, 'other')), project: 'troupe' });
      expect(await checksum(other.db)).toEqual(sums);
      const { rows } = await other.db.query('select bytes from troupe.blobs');
      expect(rows).toEqual([{ bytes: data }]);
    } finally {
      await fresh.close();
      await other.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe('A topic', () => {
  it('holds the whole record, and what is read of it has the image once', async () => {
    const { db, close } = await freshDatabase();
    try {
      const data = image();
      const events = call('read', 0, [picture(data)]);
      const topic = memoryTopic('t', 2);
      topic.append(events);
      expect(writeRecord(events[0]!).value).toContain(data.toString('base64'));
      expect(await bringIn(db, topic.source)).toBe(2);
      const { rows } = await db.query<{ json: string }>('select data::text as json from troupe.events where id = $1', [
        events[0]!.id,
      ]);
      expect(rows).toEqual([{ json: events[0]!.json }]);
      const shown = await db.query('select artifact_id from traj.artifacts');
      expect(shown.rows).toEqual([{ artifact_id: sha256(data) }]);
    } finally {
      await close();
    }
  });
});

describe('A live trace', () => {
  it('with an image in its messages has it once, as the message that its span makes', async () => {
    const { db, close } = await freshDatabase();
    try {
      const data = image();
      const blob = SHAPES.genai!(data.toString('base64'));
      const spans = [1, 2].map((id) =>
        chat({ id }, [message('assistant', text('A square.'))], [message('user', text(`Question ${id}?`), blob)]),
      );
      const drafts = cutOtlp(decodeOtlp(request(spans))).flatMap((piece) => piece.drafts);
      await postgresLog(db).append(drafts.map((draft) => decodeDraft(draft).event!));
      await projectAll(db);
      const shown = await db.query(
        `select m.text, m.artifacts from traj.messages m where m.kind = 'input' and cardinality(m.artifacts) > 0 order by 1`,
      );
      expect(shown.rows).toEqual([1, 2].map((id) => ({ text: `Question ${id}?`, artifacts: [sha256(data)] })));
      const { rows } = await db.query<{ bytes: number; blobs: number }>(
        `select (select sum(octet_length(body)) from troupe.bodies)::integer + (select sum(octet_length(data::text)) from troupe.stored_events)::integer as bytes,
           (select count(*) from troupe.blobs)::integer as blobs`,
      );
      expect(rows[0]!.blobs).toBe(1);
      expect(rows[0]!.bytes).toBeLessThan(8000);
      const before = await checksum(db);
      await rebuild(db, { judge: judgeAgain });
      expect(await checksum(db)).toEqual(before);
    } finally {
      await close();
    }
  });
});

describe('A home of before', () => {
  it('keeps its images in their messages, takes new ones, and finds its events again as duplicates', async () => {
    const { db, close } = await freshDatabase();
    try {
      const data = image();
      const before = call('old', 0, [picture(data), SHAPES.genai!(image().toString('base64'))]);
      const log = postgresLog(db);
      await log.append(before);
      // As older code left it: base64 in the body, and nothing beside it.
      await db.query(`
        update troupe.bodies b set body = troupe.text_named(b.key, b.hash), blob = null, media_type = null where blob is not null`);
      await db.query('delete from troupe.blobs');
      await projectAll(db);
      const { rows: asOld } = await db.query('select content from traj.messages order by message_id');
      expect(JSON.stringify(asOld)).toContain(data.toString('base64'));
      const sums = await checksum(db);
      expect(await log.append(before)).toEqual(['duplicate', 'duplicate']);
      const after = call('new', 0, [picture(data)]);
      const again = call('old', 1, [picture(data)]);
      expect(new Set(await log.append([...after, ...again]))).toEqual(new Set(['accepted']));
      await projectAll(db);
      const { rows } = await db.query<{ id: string; json: string }>('select id, data::text as json from troupe.events');
      const stored = new Map(rows.map(({ id, json }) => [id, json]));
      for (const one of [...before, ...after, ...again]) expect(stored.get(one.id)).toBe(one.json);
      const { rows: shown } = await db.query('select episode_id, artifact_id from traj.artifacts');
      expect(shown).toEqual([{ episode_id: 'new', artifact_id: sha256(data) }]);
      const now = await checksum(db);
      expect(now).not.toEqual(sums);
      await rebuild(db, { judge: judgeAgain });
      expect(await checksum(db)).toEqual(now);
      expect(await reconcile(db)).toMatchObject({ ok: true, orphans: {} });
    } finally {
      await close();
    }
  });

  it('has the names that its bodies had: they are of the whole text', () => {
    const data = image().toString('base64');
    const [body] = splitEvent(
      event('message.sent', { episode_id: 'e', message_id: 'm', content: [SHAPES.gemini!(data)] as never }),
    ).bodies;
    expect(body!.hash.replaceAll('-', '')).toBe(sha256(`\n\uFFFE#${data}`).slice(0, 32));
    expect(canonicalJson(body!.body)).toBe(JSON.stringify(data));
  });
});
