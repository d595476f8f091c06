/**
 * The shapes of secrets, as their issuers publish them. Each rule looks only at texts that hold one of its `hints`, and matches in
 * time linear in the text. A shape must distinguish a secret from prose: a bare `password: x`, or 40 hex digits that may be a commit, is none.
 */

import { finderOf } from './redact-scan.ts';

export type Rule = {
  readonly name: string;
  /** Literals one of which every match contains. */
  readonly hints: readonly string[];
  /** Global. What the groups `before` and `after` match is kept. */
  readonly pattern: RegExp;
};

/**
 * A word that begins so, and not inside another one. A letter before it may be the end of an escape, as texts that hold JSON, URLs or
 * coloured output of a terminal have them. Looked at after the word was found: before it, every place of the text would be tried.
 */
const word = (beginning: string): string =>
  String.raw`${beginning}(?<=(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|\[[0-9;]{0,12}m))${beginning})`;

/**
 * What stands before the first such word of a run, which is kept. What follows a word is looked at once in a run: tried at each of them, a
 * run that holds the word a thousand times, and no dot after it, would be read a thousand times.
 */
const upTo = (first: string): string => String.raw`(?<![A-Za-z0-9_-])(?=(?<before>[A-Za-z0-9_-]*?)${first})\k<before>`;

const rule = (name: string, hints: readonly string[], source: string, flags = ''): Rule => ({
  name,
  hints,
  pattern: new RegExp(source, `g${flags}`),
});

/** In this order: what a more specific rule took is not there for the next. */
export const RULES: readonly Rule[] = [
  rule(
    'private_key',
    ['PRIVATE KEY'],
    String.raw`-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:(?:[^-]|-(?!----)){0,16384}-----END [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]{0,16384})`,
  ),
  rule('troupe_key', ['troupe_'], 'troupe_[0-9A-Za-z]{11}_[0-9A-Za-z]{43,60}'),
  rule('anthropic_api_key', ['sk-ant-'], 'sk-ant-[A-Za-z0-9_-]{20,}'),
  rule('openai_api_key', ['sk-'], String.raw`${word('sk-')}(?=[A-Za-z_-]{0,64}\d)[A-Za-z0-9_-]{20,}`),
  rule('github_token', ['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'], 'gh[opusr]_[A-Za-z0-9]{36,}'),
  rule('github_token', ['github_pat_'], 'github_pat_[A-Za-z0-9_]{22,}'),
  rule(
    'gitlab_token',
    ['glpat-', 'glrt-', 'gldt-'],
    String.raw`gl(?:pat|rt|dt)-[A-Za-z0-9_-]{20,}(?:\.[0-9a-z]{2}\.[0-9a-z]{7,})?`,
  ),
  rule('slack_token', ['xox', 'xapp-'], '(?:xox[a-z](?:\\.xox[a-z])?|xapp)-[A-Za-z0-9-]{10,}'),
  rule(
    'slack_webhook',
    ['hooks.slack.com'],
    String.raw`(?<before>hooks\.slack\.com/(?:services|workflows|triggers)/)[A-Za-z0-9_/-]{20,}`,
  ),
  rule('aws_access_key_id', ['AKIA', 'ASIA'], `${word('A[KS]IA')}[A-Z0-9]{16}(?![A-Z0-9])`),
  rule(
    'aws_secret_access_key',
    ['ecret', 'ECRET'],
    String.raw`(?<before>secret_?(?:access_?)?key[\\"']{0,6}\s{0,4}[:=]\s{0,4}[\\"']{0,6})[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])`,
    'i',
  ),
  rule('google_api_key', ['AIza', 'AQ.Ab'], `AIza[0-9A-Za-z_-]{35}|${word('AQ[.]Ab')}[0-9A-Za-z_-]{30,}`),
  rule(
    'google_oauth_token',
    ['ya29.', 'GOCSPX-', '1//0'],
    String.raw`ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{20,}|1//0[0-9A-Za-z_-]{40,}`,
  ),
  rule('azure_storage_key', ['AccountKey='], '(?<before>AccountKey=)[A-Za-z0-9+/]{80,}={0,2}'),
  rule('databricks_token', ['dapi'], `${word('dapi')}[0-9a-f]{32}(?![0-9a-f])`),
  rule('vault_token', ['hvs.'], `${word('hvs[.]')}[A-Za-z0-9_-]{24,}`),
  rule(
    'model_server_key',
    ['xai-', 'pplx-', 'csk-', 'nvapi-', 'tgp_v1_', 'r8_', 'fw_'],
    `${word('(?:xai-|pplx-|csk-|r8_|fw_)')}[A-Za-z0-9]{22,}|nvapi-[A-Za-z0-9_-]{40,}|tgp_v1_[A-Za-z0-9_-]{30,}`,
  ),
  rule('stripe_key', ['k_live_', 'k_test_', 'whsec_'], `(?:${word('[sr]k_(?:live|test)_')}|whsec_)[0-9A-Za-z]{16,}`),
  rule('huggingface_token', ['hf_'], `${word('hf_')}[A-Za-z0-9]{30,}`),
  rule('npm_token', ['npm_'], `${word('npm_')}[A-Za-z0-9]{36,}`),
  rule('pypi_token', ['pypi-'], `${word('pypi-')}[A-Za-z0-9_-]{50,}`),
  rule('groq_api_key', ['gsk_'], `${word('gsk_')}[A-Za-z0-9]{40,}`),
  rule('sendgrid_api_key', ['SG.'], String.raw`${word('SG[.]')}[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}`),
  rule('langsmith_api_key', ['lsv2_'], 'lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}'),
  rule('jwt', ['eyJ'], String.raw`${upTo(word('eyJ'))}eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{0,}){2,4}`),
  rule('url_password', ['://'], String.raw`(?<before>://[^\s/?#:@"'<>\\]{0,128}:)[^\s/"'<>\\]{1,256}(?<after>@)`),
  rule(
    'bearer_token',
    ['earer ', 'EARER '],
    String.raw`(?<before>\bbearer )(?=[A-Za-z._~+/=-]{0,64}\d)[A-Za-z0-9._~+/=-]{16,}`,
    'i',
  ),
  rule(
    'authorization_header',
    ['uthorization', 'UTHORIZATION'],
    String.raw`(?<before>authorization[\\"']{0,6}\s{0,4}[:=]\s{0,4}[\\"']{0,6}(?:basic|token|apikey) )[A-Za-z0-9._~+/=-]{8,}`,
    'i',
  ),
  rule(
    'api_key_header',
    ['api-key', 'API-KEY', 'Api-Key'],
    String.raw`(?<before>\b(?:x-)?api-key[\\"']{0,6}\s{0,4}[:=]\s{0,4}[\\"']{0,6})(?=[A-Za-z._-]{0,64}\d)[A-Za-z0-9._-]{16,}`,
    'i',
  ),
  // Behind the others, which would be part of its run where a slash stands before them.
  rule('bedrock_api_key', ['ABSK', 'bedrock-api-key-'], '(?:ABSK|bedrock-api-key-)[A-Za-z0-9+/]{60,}={0,2}'),
  // Keys without a shape of their own, under their usual name: a run that no name in a program has.
  rule(
    'api_key',
    ['api_key', 'API_KEY', 'apikey', 'apiKey', 'ApiKey', 'APIKEY'],
    String.raw`(?<before>api_?key[\\"']{0,6}\s{0,4}[:=]\s{0,4}[\\"']{0,6})(?=[A-Za-z-]{0,64}\d)[A-Za-z0-9-]{24,}(?![A-Za-z0-9_.([-])`,
    'i',
  ),
];

/** Stands where a secret was. Digits, letters and underscores name the rule. */
export const markOf = (name: string): string => `[redacted:${name}]`;
export const MARK = /\[redacted:([a-z][a-z0-9_]{0,63})\]/g;

/** Every shape has a run of so many of these characters, but for the few that are looked for by themselves. */
const RUN = 15;
const IN_RUN = new Uint8Array(128);
for (const c of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.') IN_RUN[c.charCodeAt(0)] = 1;
/** The hint of a rule may stand at most so far before the run. */
const AROUND = 64;
const literal = (text: string): string => text.replace(/[.\\/]/g, '\\$&');
const HINTS: readonly string[] = [...new Set(RULES.flatMap(({ hints }) => hints))];
const HINT = new RegExp(HINTS.map(literal).join('|'));
const WITHOUT_RUN = /:\/\/[^\s/?#:@"'<>\\]{0,128}:[^\s/"'<>\\]{1,256}@/;

/** Looked for in one pass, a tenth of what a pattern of all of them takes. */
const holdsHint = finderOf(HINTS);

/**
 * False where no built-in rule can find anything. JSON text may be looked at as it is, for its escapes are no part of a hint. Most
 * texts hold no hint, which is checked first.
 */
export function mayHoldSecret(text: string): boolean {
  if (!holdsHint(text)) return false;
  const { length } = text;
  let run = 0;
  for (let i = 0; i <= length; i++) {
    const c = i < length ? text.charCodeAt(i) : 0;
    if (c < 128 && IN_RUN[c] === 1) run++;
    else {
      if (run >= RUN && HINT.test(text.slice(Math.max(0, i - run - AROUND), i))) return true;
      run = 0;
    }
  }
  if (
    text.includes('PRIVATE KEY') ||
    text.includes('AccountKey=') ||
    text.includes('uthorization') ||
    text.includes('UTHORIZATION')
  )
    return true;
  return text.includes('://') && WITHOUT_RUN.test(text);
}

/** True where one of the built-in rules finds something. */
export const holdsSecret = (text: string): boolean =>
  mayHoldSecret(text) &&
  RULES.some(({ hints, pattern }) => hints.some((hint) => text.includes(hint)) && text.search(pattern) >= 0);
