/** The setting `spans`: traces of a program that cannot be changed are one episode, by a rule of whoever runs the server. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../ingest/files/import.ts';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../../ingest/log/postgres.ts';
import { toAttributes } from '../../ingest/traces/otlp/any-value.ts';
import { decodeOtlp } from '../../ingest/traces/otlp/decode.ts';
import { readEpisodeRules, withEpisodes } from '../../ingest/traces/otlp/episode-rules.ts';
import { projectBatch } from '../../store/projecting/projector.ts';
import { agent, chat, logRequest, message, request, span, TRACE, text } from '../ingest/support/spans.ts';
import { freshDatabase } from '../support/database.ts';
import { type TestApp, testApp } from './support/app.ts';

const RULES = readEpisodeRules({
  episodes: [
    { service: 'autogen-*', by: 'session.id' },
    { service: 'support', by: 'gen_ai.conversation.id' },
    { service: 'autogen-*', by: 'never.read' },
  ],
});
const OTHER = TRACE.replace('a1b2', 'ffff');

/** Two traces of one run: an agent with its call, and a call of a model's client, which has a scope of its own. */
const run = (spanned: Record<string, unknown>, resource: Record<string, unknown>) => {
  const one = [
    agent({ id: 1, attributes: spanned }, 'planner'),
    chat({ id: 2, parent: 1, attributes: spanned }, [message('assistant', text('Far.'))]),
  ];
  const other = { ...chat({ id: 3, attributes: spanned }, [message('assistant', text('Very.'))]), traceId: OTHER };
  const { resourceSpans } = request(one, resource);
  const [{ resource: named, scopeSpans }] = resourceSpans as [(typeof resourceSpans)[0]];
  const client = { scope: { name: 'client of a model' }, spans: [other] };
  return { resourceSpans: [{ resource: named, scopeSpans: [...scopeSpans, client] }] };
};

let at: TestApp;
beforeAll(async () => {
  at = await testApp({ episodes: RULES });
});
afterAll(() => at.close());

const episodes = async (db: TestApp['db']) => {
  while ((await projectBatch(db)) > 0);
  const { rows } = await db.query<{ episode_id: string; steps: number }>(
    'select episode_id, count(*)::int as steps from traj.steps group by 1 order by 1',
  );
  return rows.map(({ episode_id, steps }) => [episode_id, steps]);
};

describe('a rule for the spans of a program', () => {
  it('makes traces one episode by an attribute of the spans, of the resource, or of each; without one they stay traces', async () => {
    const sent = [
      run({ 'session.id': 'run-1' }, { 'service.name': 'autogen-team' }),
      run({}, { 'service.name': 'autogen-team', 'session.id': 'run-2' }),
      run({ 'session.id': 'run-3' }, { 'service.name': 'autogen-team', 'session.id': 'all' }),
      run({ 'gen_ai.conversation.id': 'talk' }, { 'service.name': 'support' }),
      run({ 'session.id': 'run-5' }, { 'service.name': 'autogen-own', 'troupe.episode_id': 'own' }),
      run({ 'session.id': 'run-6' }, { 'service.name': 'another' }),
    ];
    for (const payload of sent) {
      const answer = await at.app.inject({ method: 'POST', url: '/v1/traces', payload });
      expect([answer.statusCode, answer.body]).toEqual([200, '{}']);
    }
    const found = await episodes(at.db);
    expect(found).toEqual(
      [
        ['run-1', 2],
        ['run-2', 2],
        ['run-3', 2],
        ['talk', 2],
        ['own', 2],
        [TRACE, 1],
        [OTHER, 1],
      ].sort(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
    );
  });

  it('holds for files, and the same spans from a file and over HTTP are the same steps', async () => {
    const { db, close } = await freshDatabase();
    const folder = await mkdtemp(join(tmpdir(), 'troupe-span-episodes-'));
    try {
      const sent = run({ 'session.id': 'filed' }, { 'service.name': 'autogen-team' });
      const file = join(folder, 'traces.json');
      await writeFile(file, JSON.stringify(sent));
      const ports = {
        log: postgresLog(db),
        book: postgresBook(db),
        artifacts: fileArtifacts(join(folder, 'artifacts')),
      };
      await importFiles([file], { ...ports, episodes: RULES });
      expect(await episodes(db)).toEqual([['filed', 2]]);
    } finally {
      await close();
      await rm(folder, { recursive: true });
    }
  });

  it('is written into the resource, so that it is found without the setting again, and changes nothing that was given', () => {
    const given = request([span({ id: 1, attributes: { 'session.id': 's' } })], { 'service.name': 'autogen-1' });
    const before = JSON.stringify(given);
    const ruled = withEpisodes(given, RULES);
    expect(JSON.stringify(given)).toBe(before);
    const [kept] = decodeOtlp(ruled).spans;
    expect([kept!.traceId, kept!.resource['troupe.episode_by']]).toEqual(['s', 'session.id']);
    expect(withEpisodes(given, [])).toBe(given);
  });

  it('holds for log records, and passes over what is no request or has no service', () => {
    const log = { traceId: TRACE, attributes: toAttributes({ 'session.id': 's' }) };
    const { resourceLogs } = logRequest([log]);
    const resource = { attributes: toAttributes({ 'service.name': 'autogen-1' }) };
    const ruled = withEpisodes({ resourceLogs: [{ ...resourceLogs[0], resource }] }, RULES);
    expect(decodeOtlp(ruled).logs[0]!.traceId).toBe('s');
    const odd = [
      null,
      5,
      { resourceSpans: [null, { resource: { attributes: 'x' } }, { resource: { attributes: [null] } }] },
    ];
    expect(withEpisodes(odd, RULES)).toEqual(odd);
  });

  it.each([
    [[], 'spans'],
    [{ episode: [] }, 'spans'],
    [{ episodes: {} }, 'spans.episodes'],
    [{ episodes: ['autogen'] }, 'spans.episodes.0'],
    [{ episodes: [{ service: 'a', by: 'session.id', scope: 'x' }] }, 'spans.episodes.0'],
    [{ episodes: [{ service: 'a*b', by: 'session.id' }] }, 'spans.episodes.0.service'],
    [{ episodes: [{ service: 'a' }] }, 'spans.episodes.0.by'],
    [{ episodes: [{ by: 'session.id' }] }, 'spans.episodes.0.service'],
  ])('is refused where it is none: %j', (setting, field) => {
    expect(() => readEpisodeRules(setting)).toThrow(expect.objectContaining({ code: 'config_invalid' }));
    expect(() => readEpisodeRules(setting)).toThrow(field);
  });
});
