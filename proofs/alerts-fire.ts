/** Proof that the alerts of docker/alerts.yaml fire when they should and not before, as Prometheus' own `promtool` reckons them. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { Outcome, Proof, Setting } from './proof.ts';

const RULES = join(import.meta.dirname, '..', 'docker', 'alerts.yaml');

/** Series by minute for two hours, as promtool writes them, and whether the alert fires at a minute. */
type Case = {
  readonly alert: string;
  readonly what: string;
  readonly series: Readonly<Record<string, string>>;
  readonly minute: number;
  readonly fires: readonly Readonly<Record<string, string>>[];
};
const up = { 'troupe_database_up{role="serve"}': '1x120' };
const page = { severity: 'page' };
const ticket = { severity: 'ticket' };
const letters = (values: string) => ({
  ...up,
  'troupe_dead_letters{endpoint="http",code="bad_shape",role="serve"}': values,
});
const role = (values: string) => ({ ...up, 'troupe_role_up{role="judge"}': values });

const CASES: readonly Case[] = [
  {
    alert: 'TroupeDatabaseDown',
    what: 'the database is away',
    series: { 'troupe_database_up{role="serve"}': '1x10 0x110' },
    minute: 15,
    fires: [{ ...page, role: 'serve' }],
  },
  {
    alert: 'TroupeGone',
    what: 'nothing is read any more',
    series: { 'troupe_database_up{role="serve"}': '1x10' },
    minute: 30,
    fires: [page],
  },
  { alert: 'TroupeGone', what: 'all is well', series: up, minute: 30, fires: [] },
  {
    alert: 'TroupeRoleDown',
    what: 'the judge does not come back',
    series: role('1x10 0x110'),
    minute: 20,
    fires: [{ ...page, role: 'judge' }],
  },
  {
    alert: 'TroupeRoleDown',
    what: 'the judge was started again',
    series: role('1x10 0x2 1x100'),
    minute: 20,
    fires: [],
  },
  {
    alert: 'TroupeProjectionBehind',
    what: 'events wait',
    series: { ...up, troupe_oldest_unprojected_seconds: '0x10 0+60x110' },
    minute: 30,
    fires: [page],
  },
  {
    alert: 'TroupeDeadLetters',
    what: 'the first letters that a endpoint ever had are 150',
    series: letters('_x60 150x60'),
    minute: 65,
    fires: [{ ...ticket, endpoint: 'http' }],
  },
  {
    alert: 'TroupeDeadLetters',
    what: '150 more than an hour ago',
    series: letters('500x60 650x60'),
    minute: 65,
    fires: [{ ...ticket, endpoint: 'http' }],
  },
  {
    alert: 'TroupeDeadLetters',
    what: '50 more than an hour ago',
    series: letters('500x60 550x60'),
    minute: 65,
    fires: [],
  },
  {
    alert: 'TroupeServerErrors',
    what: '12 answers with 503 a minute',
    series: { ...up, 'troupe_http_requests_total{route="/v1/events",status="503"}': '0+12x120' },
    minute: 30,
    fires: [ticket],
  },
];

export const proof: Proof = {
  name: 'alerts-fire',
  needs: [],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci', 'promtool');
    const promtool = process.env.TROUPE_PROMTOOL || join(cache, 'usr', 'bin', 'promtool');
    if (!existsSync(promtool)) {
      const install = `mkdir -p ${cache} && cd ${cache} && apt-get download prometheus && dpkg-deb -x prometheus_*.deb .`;
      return { ok: true, lines: [], skipped: [`no promtool at ${promtool}; say: ${install}, or set TROUPE_PROMTOOL`] };
    }
    const lines: string[] = [];
    const tell = (ok: boolean, what: string, detail = ''): void => {
      lines.push(`${ok ? 'ok' : 'NOT OK'}  ${what}${ok ? '' : `: ${detail}`}`);
      say(lines.at(-1)!);
    };
    const checked = spawnSync(promtool, ['check', 'rules', RULES], { encoding: 'utf8' });
    tell(checked.status === 0, 'promtool reads the rules', checked.stderr);
    for (const [i, one] of CASES.entries()) {
      const file = join(scratch, `${i}.yaml`);
      writeFileSync(file, JSON.stringify(asTest(one)));
      const { status, stdout, stderr } = spawnSync(promtool, ['test', 'rules', file], { encoding: 'utf8' });
      tell(
        status === 0,
        `${one.alert} ${one.fires.length > 0 ? 'fires' : 'is silent'} where ${one.what}`,
        stdout + stderr,
      );
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };
  },
};

/** The file of one case; the words of the alert are taken from the rules. */
function asTest({ alert, series, minute, fires }: Case): object {
  return {
    rule_files: [RULES],
    tests: [
      {
        interval: '1m',
        input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
        alert_rule_test: [
          {
            eval_time: `${minute}m`,
            alertname: alert,
            exp_alerts: fires.map((exp_labels) => ({ exp_labels, exp_annotations: { summary: summaryOf(alert) } })),
          },
        ],
      },
    ],
  };
}

type Rules = {
  readonly groups: readonly {
    readonly rules: readonly { readonly alert: string; readonly annotations: { readonly summary: string } }[];
  }[];
};

const summaryOf = (alert: string): string =>
  (parse(readFileSync(RULES, 'utf8')) as Rules).groups
    .flatMap(({ rules }) => rules)
    .find((rule) => rule.alert === alert)!.annotations.summary;
