/** Made-up secrets in the shapes of their issuers, put together here so that no scanner finds one in this file. */
const letters = 'aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD3fG6hJ9kL2nP5rS8tU1wX4yZ7bC0eF3gH6';
const base64 = (text: string): string => Buffer.from(text).toString('base64url');
const line = `${letters}${letters}`.slice(0, 64);

/** Rule to a secret that it must find, and that must be nowhere afterwards. */
export const CANARIES: Readonly<Record<string, string>> = {
  anthropic_api_key: `sk-${'ant-api03'}-${letters}`,
  openai_api_key: `sk-${'proj'}-${letters.slice(0, 48)}`,
  github_token: `ghp${'_'}${letters.slice(0, 36)}`,
  gitlab_token: `glpat${'-'}${letters.slice(0, 20)}`,
  slack_token: `xoxb${'-'}2048-4096-${letters.slice(0, 24)}`,
  aws_access_key_id: `AKIA${'Q3EXAMPLE7CANARY'}`,
  google_api_key: `AIza${letters.slice(0, 35)}`,
  stripe_key: `sk_${'live'}_${letters.slice(0, 24)}`,
  huggingface_token: `hf${'_'}${letters.slice(0, 34)}`,
  npm_token: `npm${'_'}${letters.slice(0, 36)}`,
  groq_api_key: `gsk${'_'}${letters.slice(0, 52)}`,
  sendgrid_api_key: `SG${'.'}${letters.slice(0, 22)}.${letters.slice(0, 43)}`,
  bedrock_api_key: `ABSK${letters}${letters}`,
  databricks_token: `dapi${'0123456789abcdef'.repeat(2)}`,
  vault_token: `hvs${'.'}${letters.slice(0, 40)}`,
  model_server_key: `xai${'-'}${letters}`,
  troupe_key: `troupe${'_'}${letters.slice(0, 11)}_${letters.slice(0, 49)}`,
  jwt: `${base64('{"alg":"HS256"}')}.${base64('{"sub":"1234567890"}')}.${letters.slice(0, 43)}`,
  private_key: `-----BEGIN ${'RSA PRIVATE'} KEY-----\n${line}\n${line}\n-----END ${'RSA PRIVATE'} KEY-----`,
};

/** Secrets that need their surroundings to be seen: the text, and the part that must be gone. */
export const IN_PLACE: readonly (readonly [rule: string, text: string, secret: string])[] = [
  ['url_password', 'psql postgres://ann:s3cr3t-Pa55@db.example.org:5432/x', 's3cr3t-Pa55'],
  ['url_password', 'redis://:p@ss@w0rd@cache:6379', 'p@ss@w0rd'],
  ['bearer_token', `Authorization: Bearer ${letters.slice(0, 30)}`, letters.slice(0, 30)],
  ['authorization_header', 'authorization: Basic YW5uOnNlY3JldA==', 'YW5uOnNlY3JldA=='],
  ['aws_secret_access_key', `aws_secret_access_key = ${letters.slice(0, 40)}`, letters.slice(0, 40)],
  ['api_key_header', `{"x-api-key": "${letters.slice(0, 32)}"}`, letters.slice(0, 32)],
  ['google_api_key', `key=AQ${'.Ab'}${letters.slice(0, 45)} `, `AQ.Ab${letters.slice(0, 45)}`],
  ['google_oauth_token', `refresh 1//0${letters.slice(0, 60)} `, `1//0${letters.slice(0, 60)}`],
  ['gitlab_token', `glrt${'-'}${letters.slice(0, 27)}.01.1a2b3c4d5 `, `glrt-${letters.slice(0, 27)}.01.1a2b3c4d5`],
  ['azure_storage_key', `AccountName=a;AccountKey=${'abcdefgh+jklm/'.repeat(6)}== `, `${'abcdefgh+jklm/'.repeat(6)}==`],
  ['model_server_key', `pplx${'-'}${letters.slice(0, 48)} `, `pplx-${letters.slice(0, 48)}`],
  ['model_server_key', `nvapi${'-'}${letters.slice(0, 64)} `, `nvapi-${letters.slice(0, 64)}`],
  ['model_server_key', `r8${'_'}${letters.slice(0, 37)} `, `r8_${letters.slice(0, 37)}`],
  ['api_key', `MISTRAL_API_KEY=${letters.slice(0, 32)}`, letters.slice(0, 32)],
  ['api_key', `{"api_key": "${letters.slice(0, 40)}"}`, letters.slice(0, 40)],
  [
    'slack_webhook',
    `https://hooks.slack.com/services/T0/B0/${letters.slice(0, 24)} x`,
    `T0/B0/${letters.slice(0, 24)}`,
  ],
];
