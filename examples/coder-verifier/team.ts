/**
 * The team as a program of its own: it leases attempts of a runner with `workers: true`, calls its model through Troupe's gateway, and records
 * what came out. It never sees weights, tables or grades: new checkpoints reach it only as better answers.
 *
 *   node --import tsx examples/coder-verifier/team.ts --url http://127.0.0.1:7717 [--runner team] [--policy policy:team] [--key KEY]
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createRecorder, type Recorder } from '../../ingest/recorder.ts';
import { openGateway } from './gateway.ts';
import { CODER, VERIFIER } from './language.ts';
import { openLeases } from './leases.ts';
import { play } from './play.ts';
import { digest } from './random.ts';
import { SOURCE } from './source.ts';

const AGENTS = [
  { name: 'coder', role: 'coder', policy: 'team', prompt: `SENTENCE ${CODER}` },
  { name: 'verifier', role: 'verifier', policy: 'team', prompt: `SENTENCE ${VERIFIER} INPUT` },
];
const CONTENT_HASH = digest(JSON.stringify(AGENTS));
const TEAM_ID = `list-recipes@${CONTENT_HASH.slice(0, 12)}`;

/** Episodes at a time. */
const AT_ONCE = 128;
/** Pause where no attempt waits. */
const IDLE_MS = 50;

function introduce(recorder: Recorder): void {
  recorder.event({
    name: 'team.defined',
    id: `team/${TEAM_ID}`,
    time: null,
    data: { team_id: TEAM_ID, name: 'list recipes', agents: AGENTS, edges: [], content_hash: CONTENT_HASH },
  });
}

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    runner: { type: 'string', default: 'team' },
    policy: { type: 'string', default: 'policy:team' },
    key: { type: 'string' },
  },
});
if (values.url === undefined) {
  process.stderr.write('Missing the address of Troupe: --url http://127.0.0.1:7717\n');
  process.exit(2);
}
const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort());
const headers = values.key === undefined ? {} : { authorization: `Bearer ${values.key}` };
const { url, runner, policy } = values;
const leases = openLeases(url, { runner, headers, signal: stop.signal });
const gateway = openGateway(url, { headers });
const recorder = createRecorder({ baseUrl: url, source: SOURCE, headers });
introduce(recorder);
try {
  while (!stop.signal.aborted) {
    const attempts = await leases.lease(AT_ONCE);
    if (attempts.length === 0) await sleep(IDLE_MS, undefined, { signal: stop.signal });
    else await leases.finish(await play(attempts, { gateway, recorder, policy }));
  }
} catch (error) {
  if (!stop.signal.aborted) throw error;
} finally {
  gateway.close();
}
