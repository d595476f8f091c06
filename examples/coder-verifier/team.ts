/**
 * The team as a program of its own. It is told what to play on its standard input, speaks through Troupe's gateway and reports
 * to Troupe's event door. It never sees weights, tables or grades: new checkpoints reach it only as better answers.
 *
 *   node --import tsx examples/coder-verifier/team.ts --url http://127.0.0.1:7717 [--run NAME] [--key KEY]
 */
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { createRecorder, type Recorder } from '../../ingest/recorder.ts';
import { readCommand } from './command.ts';
import { openGateway } from './gateway.ts';
import { CODER, VERIFIER } from './language.ts';
import { play } from './play.ts';
import { digest } from './random.ts';
import { SOURCE } from './source.ts';

const AGENTS = [
  { name: 'coder', role: 'coder', policy: 'team', prompt: `SENTENCE ${CODER}` },
  { name: 'verifier', role: 'verifier', policy: 'team', prompt: `SENTENCE ${VERIFIER} INPUT` },
];
const CONTENT_HASH = digest(JSON.stringify(AGENTS));
const TEAM_ID = `list-recipes@${CONTENT_HASH.slice(0, 12)}`;

function introduce(recorder: Recorder): void {
  recorder.event({
    name: 'team.defined',
    id: `team/${TEAM_ID}`,
    time: null,
    data: { team_id: TEAM_ID, name: 'list recipes', agents: AGENTS, edges: [], content_hash: CONTENT_HASH },
  });
}

const respond = (answer: object): boolean => process.stdout.write(`${JSON.stringify(answer)}\n`);

const { values } = parseArgs({
  options: { url: { type: 'string' }, run: { type: 'string' }, key: { type: 'string' } },
});
if (values.url === undefined) {
  process.stderr.write('Say where Troupe listens: --url http://127.0.0.1:7717\n');
  process.exit(2);
}
const authorization = values.key === undefined ? {} : { authorization: `Bearer ${values.key}` };
const gateway = openGateway(values.url, { headers: authorization });
const recorder = createRecorder({ baseUrl: values.url, source: SOURCE, headers: authorization });
introduce(recorder);
respond({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === '') continue;
  const began = performance.now();
  try {
    const played = await play(readCommand(line, values.run ?? 'run'), gateway, recorder, TEAM_ID);
    respond({ done: true, seconds: Number(((performance.now() - began) / 1000).toFixed(3)), ...played });
  } catch (error) {
    respond({ error: (error as Error).message });
  }
}
gateway.close();
