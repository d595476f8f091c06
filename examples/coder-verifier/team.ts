/**
 * The team as a program of its own: it leases attempts of a runner with `workers: true`, calls its model through Troupe's gateway, and records
 * what came out. It never sees weights, tables or grades: new checkpoints reach it only as better answers.
 *
 *   node --import tsx examples/coder-verifier/team.ts --url http://127.0.0.1:7717 [--runner team] [--policy policy:team] [--verifier MODEL|none] [--key KEY]
 */
import { runTeam } from '../lib/worker.ts';
import { CODER, VERIFIER } from './language.ts';
import { play } from './play.ts';
import { SOURCE } from './source.ts';

await runTeam({
  name: 'list recipes',
  source: SOURCE,
  runner: 'team',
  agents: [
    { name: 'coder', role: 'coder', policy: 'team', prompt: `SENTENCE ${CODER}` },
    { name: 'verifier', role: 'verifier', policy: 'team', prompt: `SENTENCE ${VERIFIER} INPUT` },
  ],
  // The verifier is answered by the coder's model, unless it has one of its own; none: nobody tests.
  models: { policy: 'policy:team', verifier: '' },
  play,
});
